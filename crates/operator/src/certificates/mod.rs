//! The certificates of webhooks behind a Service: made, kept in a Secret, trusted by the API server, renewed in time.
//!
//! What to do next is decided by [`decide`](decide::decide) over what the Secret holds; [`Kept`](kept::Kept) reads and makes that.
//! The leader does it ([`Keeper`]); every replica shows what the Secret holds ([`Holder`]).
//!
//! # Invariants
//!
//! - At any moment the API servers trust what any replica shows. A new authority is first added to what is trusted, and
//!   certifies only after a pause in which all have heard of it; the former one is trusted until, after another
//!   pause, no replica shows what it certified.
//! - Every write of the Secret is guarded by the revision that was decided over: of two leaders one wins.
//! - Keys are in the Secret and in the memory of the replicas, and nowhere else.
//!
//! # Deliberately absent
//!
//! Everything else of the webhook configurations: `muster install` makes them. Certificates of others (cert-manager):
//! ours win.

mod configurations;
mod decide;
mod definitions;
mod followed;
mod holder;
mod keeper;
mod kept;
#[cfg(test)]
mod rotation;
mod services;

use std::time::Duration;

use muster_install::names::VISIBILITY_SERVICE;
pub use muster_install::names::WEBHOOK_SECRET as SECRET;

pub use self::followed::{Followed, told};
pub use self::holder::Holder;
pub use self::keeper::Keeper;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Certificates are valid from so long before they were made: clocks may be behind.
const BACKDATED: Duration = DAY;

/// How long certificates last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    /// An authority.
    pub authority: Duration,
    /// What it certifies.
    pub serving: Duration,
    /// How long API servers and replicas may take to hear of a change.
    pub pause: Duration,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Lifetimes { authority: 3650 * DAY, serving: 365 * DAY, pause: HOUR / 6 }
    }
}

impl Lifetimes {
    /// Whether a rotation has the time it needs.
    ///
    /// # Errors
    /// What is too short.
    pub fn check(&self) -> Result<(), String> {
        let Lifetimes { authority, serving, pause } = self;
        if serving > authority {
            return Err(format!(
                "certificates of {serving:?} cannot outlast their authority of {authority:?}"
            ));
        }
        // Renewed at two thirds: in the last third a new one has to be known to all, and the old one to leave.
        if *pause * 6 > *authority {
            return Err(format!(
                "an authority of {authority:?} is too short: at least {:?}, six pauses",
                *pause * 6
            ));
        }
        if pause.is_zero() || *serving < Duration::from_secs(3) {
            return Err(format!("certificates of {serving:?} with a pause of {pause:?}: at least 3s and 1s"));
        }
        Ok(())
    }
}

/// Whose certificates they are: a Service, by which API servers know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Service {
    /// The name that API servers ask for.
    pub fn host(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }

    /// The one beside it that leads to whoever is in charge.
    fn of_the_leader(&self) -> Service {
        Service { namespace: self.namespace.clone(), name: VISIBILITY_SERVICE.to_owned() }
    }

    /// All names that are certified. Whoever shows the certificate needs only its own names in it: one of a version that knew
    /// fewer is as good until it is renewed.
    fn certified(&self) -> Vec<String> {
        [self.names(), self.of_the_leader().names()].concat()
    }

    /// All names it is called by.
    fn names(&self) -> Vec<String> {
        let host = self.host();
        vec![host.clone(), format!("{host}.cluster.local"), format!("{}.{}", self.name, self.namespace)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_leave_time_to_rotate() {
        let secs = Duration::from_secs;
        assert_eq!(Lifetimes::default().check(), Ok(()));
        let short = Lifetimes { authority: secs(24), serving: secs(6), pause: secs(2) };
        assert_eq!(short.check(), Ok(()));
        for (wrong, words) in [
            (Lifetimes { serving: secs(25), ..short }, "cannot outlast"),
            (Lifetimes { pause: secs(5), ..short }, "six pauses"),
            (Lifetimes { serving: secs(2), ..short }, "at least 3s"),
            (Lifetimes { pause: secs(0), ..short }, "at least 3s"),
        ] {
            assert!(wrong.check().unwrap_err().contains(words), "{wrong:?}");
        }
    }
}
