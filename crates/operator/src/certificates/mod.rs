//! Certificates of the webhooks behind a Service: generated, stored in a Secret, trusted by the API server, rotated.
//!
//! [`next_step`](rotation_step::next_step) decides over the contents of the Secret, which
//! [`CertificateSet`](secret::CertificateSet) parses and encodes. The leader acts on it ([`CertRotator`]); every replica
//! serves what the Secret holds ([`CertReloader`]).
//!
//! # Guarantees
//!
//! - At any moment the API servers trust the certificate of every replica. A new CA is first added to the CA bundles, and
//!   signs only after the propagation delay; the former CA stays in the bundles until, after another delay, no replica
//!   serves a certificate that it signed.
//! - Every write of the Secret has the decided resource version as a precondition: of two leaders one wins.
//! - Private keys are in the Secret and in the memory of the replicas, and nowhere else.
//!
//! # Deliberately absent
//!
//! The rest of the webhook configurations, which `muster install` creates. Certificates of cert-manager: ours win.

mod api_services;
mod crds;
mod reloader;
mod rotation_step;
#[cfg(test)]
mod rotation_tests;
mod rotator;
mod secret;
mod watched;
mod webhook_configurations;

use std::time::Duration;

use muster_install::names::VISIBILITY_SERVICE;
pub use muster_install::names::WEBHOOK_SECRET as SECRET;

pub use self::reloader::CertReloader;
pub use self::rotator::CertRotator;
pub use self::watched::{WatchedObject, next_batch};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// `notBefore` lies this far in the past: the clocks of API servers may be behind.
const BACKDATED: Duration = DAY;

/// Lifetimes of CA and serving certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CertificateLifetimes {
    pub ca: Duration,
    pub serving: Duration,
    /// The propagation delay: how long API servers and replicas may take to observe a change.
    pub propagation_delay: Duration,
}

impl Default for CertificateLifetimes {
    fn default() -> Self {
        CertificateLifetimes { ca: 3650 * DAY, serving: 365 * DAY, propagation_delay: HOUR / 6 }
    }
}

impl CertificateLifetimes {
    /// Checks that a rotation fits into the lifetimes.
    ///
    /// # Errors
    /// Which lifetime is too short.
    pub fn check(&self) -> Result<(), String> {
        let CertificateLifetimes { ca: authority, serving, propagation_delay: pause } = self;
        if serving > authority {
            return Err(format!(
                "serving certificates of {serving:?} cannot outlast their CA of {authority:?}"
            ));
        }
        // Renewal starts at two thirds: the last third has to cover one delay to add the new CA and one to remove the old one.
        if *pause * 6 > *authority {
            return Err(format!(
                "a CA lifetime of {authority:?} is too short: at least {:?}, six propagation delays",
                *pause * 6
            ));
        }
        if pause.is_zero() || *serving < Duration::from_secs(3) {
            return Err(format!(
                "serving certificates of {serving:?} with a propagation delay of {pause:?}: at least 3s and 1s"
            ));
        }
        Ok(())
    }
}

/// The Service that API servers connect to: certificates have its DNS names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceRef {
    pub namespace: String,
    pub name: String,
}

impl ServiceRef {
    /// The DNS name that API servers connect to.
    pub fn host(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }

    /// The sibling Service that selects the leader's pod.
    fn leader_service(&self) -> ServiceRef {
        ServiceRef { namespace: self.namespace.clone(), name: VISIBILITY_SERVICE.to_owned() }
    }

    /// The DNS names in new certificates. A server requires only its own names: a certificate of an older version, which knew
    /// fewer, stays usable until it is renewed.
    fn certificate_names(&self) -> Vec<String> {
        [self.names(), self.leader_service().names()].concat()
    }

    /// The DNS names of this Service.
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
        assert_eq!(CertificateLifetimes::default().check(), Ok(()));
        let short = CertificateLifetimes { ca: secs(24), serving: secs(6), propagation_delay: secs(2) };
        assert_eq!(short.check(), Ok(()));
        for (wrong, words) in [
            (CertificateLifetimes { serving: secs(25), ..short }, "cannot outlast"),
            (CertificateLifetimes { propagation_delay: secs(5), ..short }, "six propagation delays"),
            (CertificateLifetimes { serving: secs(2), ..short }, "at least 3s"),
            (CertificateLifetimes { propagation_delay: secs(0), ..short }, "at least 3s"),
        ] {
            assert!(wrong.check().unwrap_err().contains(words), "{wrong:?}");
        }
    }
}
