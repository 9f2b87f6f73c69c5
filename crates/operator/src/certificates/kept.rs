//! What a Secret holds: read, judged, made, written.
//!
//! Pure but for the chance that keys need.
//!
//! # Invariants
//!
//! - A Secret that is neither ours nor empty is never written.
//! - `tls.crt`, `tls.key` and `ca.crt` are as anybody expects them in a Secret of type `kubernetes.io/tls`; `ca.crt` is what
//!   API servers trust. The other keys are ours.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use muster_api::meta;
use muster_api::time::Time;
use muster_api::words::annotations;
use muster_apiserver::http::authority::{Authority, Certified, Valid};
use muster_apiserver::http::certificate::{facts, facts_alone, is_trusted};
use muster_apiserver::http::identity::IdentityError;
use muster_tree::{Tree, tree};

use super::decide::{Picture, Step};
use super::{BACKDATED, Lifetimes};

/// The keys of the Secret.
const SERVING: [&str; 2] = ["tls.crt", "tls.key"];
const AUTHORITY: [&str; 2] = ["authority.crt", "authority.key"];
const NEXT: [&str; 2] = ["next-authority.crt", "next-authority.key"];
const FORMER: &str = "former-authority.crt";
const TRUSTED: &str = "ca.crt";
/// What our Secret is for, as its annotation says.
const MADE_FOR: &str = "webhooks";
/// The names in certificates: an authority may not be called as what it certifies.
const CALLED: &str = "muster-webhooks";
const AUTHORITY_CALLED: &str = "muster-webhooks-ca";

/// A Secret, as far as we are concerned.
pub enum Found {
    /// Ours, or one without contents: what it holds.
    Ours(Kept),
    /// Another's: why so.
    Foreign(String),
}

/// Certificates and keys, PEM.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Kept {
    authority: Option<Certified>,
    next: Option<Certified>,
    former: Option<String>,
    serving: Option<Certified>,
}

impl Found {
    /// Reads a Secret.
    #[must_use]
    pub fn of(secret: Option<&Tree>) -> Found {
        let Some(secret) = secret else { return Found::Ours(Kept::default()) };
        let data = secret.entries_at(&["data"]);
        let full = data.iter().find(|(_, value)| value.as_str().is_some_and(|it| !it.is_empty()));
        match (meta::annotation(secret, annotations::CERTIFICATES), full) {
            (Some(MADE_FOR), _) | (_, None) => Found::Ours(Kept::of(secret).sound()),
            (_, Some((key, _))) => Found::Foreign(format!(
                "it holds {key:?} and has no annotation {}={MADE_FOR}, so it is another's",
                annotations::CERTIFICATES
            )),
        }
    }
}

impl Kept {
    fn of(secret: &Tree) -> Kept {
        let text = |key: &str| {
            let bytes = BASE64_STANDARD.decode(secret.str_at(&["data", key])).ok()?;
            String::from_utf8(bytes).ok().filter(|text| !text.is_empty())
        };
        let pair = |[certificate, key]: [&str; 2]| {
            Some(Certified { certificate: text(certificate)?, key: text(key)? })
        };
        Kept { authority: pair(AUTHORITY), next: pair(NEXT), former: text(FORMER), serving: pair(SERVING) }
    }

    /// What of it can be used by a server of these names.
    #[must_use]
    pub fn picture(&self, names: &[String]) -> Picture {
        let authority = |it: &Option<Certified>| {
            let facts = it.as_ref().and_then(facts).filter(|facts| facts.is_authority);
            facts.map(|facts| facts.valid)
        };
        Picture {
            authority: authority(&self.authority),
            next: authority(&self.next),
            former: self.former.as_deref().and_then(facts_alone).is_some(),
            serving: self.shown(names).and_then(facts).map(|facts| facts.valid),
        }
    }

    /// What a server of these names can show: certified by the authority beside it, and its key is there.
    #[must_use]
    pub fn shown(&self, names: &[String]) -> Option<&Certified> {
        let (authority, serving) = (self.authority.as_ref()?, self.serving.as_ref()?);
        let facts = facts(serving).filter(|facts| names.iter().all(|it| facts.names.contains(it)))?;
        // Whether it is valid now is another question: clocks differ.
        let trusted =
            is_trusted(&serving.certificate, &authority.certificate, names.first()?, facts.valid.until);
        trusted.then_some(serving)
    }

    /// The authorities that are to be trusted, PEM; empty when there are none.
    #[must_use]
    pub fn bundle(&self) -> String {
        let of = |it: &Option<Certified>| it.as_ref().map(|it| it.certificate.clone());
        let all = [of(&self.authority), of(&self.next), self.former.clone()].into_iter().flatten();
        // A text that somebody edited may lack its last line end, and would hide the next.
        all.map(|it| format!("{}\n", it.trim_end())).collect()
    }

    /// The former authority, PEM.
    #[must_use]
    pub fn former(&self) -> Option<&str> {
        self.former.as_deref()
    }

    /// Without parts that cannot be used: they would do harm in a bundle.
    fn sound(&self) -> Kept {
        let usable = |it: &Option<Certified>| it.clone().filter(|it| facts(it).is_some());
        let former = self.former.clone().filter(|it| facts_alone(it).is_some());
        Kept {
            authority: usable(&self.authority),
            next: usable(&self.next),
            former,
            serving: usable(&self.serving),
        }
    }

    /// What is held after a step; `before` is what was held before the Secret was damaged.
    ///
    /// # Errors
    /// Keys cannot be made.
    pub fn after(
        &self,
        step: Step,
        before: Option<&Kept>,
        names: &[String],
        now: Time,
        lives: &Lifetimes,
    ) -> Result<Kept, IdentityError> {
        let held = self.clone();
        match step {
            Step::Wait(_) => Ok(held),
            Step::RetireFormer => Ok(Kept { former: None, ..held }),
            Step::BeginAuthority => Ok(Kept { next: Some(authority(now, lives)?), ..held }),
            Step::PutBack => {
                let before = before.unwrap_or(&held).clone();
                // Whoever deletes the keys of an authority wants another one; the same as ever, without a gap.
                let next = if before.former.is_none() { Some(authority(now, lives)?) } else { None };
                Ok(Kept { next, ..before })
            }
            Step::MakeAll => Kept { authority: Some(authority(now, lives)?), ..Kept::default() }
                .certified(names, now, lives),
            Step::RenewServing => held.certified(names, now, lives),
            Step::ServeNext => {
                let former = held.authority.map(|it| it.certificate);
                Kept { authority: held.next, next: None, former, ..held }.certified(names, now, lives)
            }
        }
    }

    fn certified(self, names: &[String], now: Time, lives: &Lifetimes) -> Result<Kept, IdentityError> {
        let Some(authority) = &self.authority else { return Ok(self) };
        let ends = facts(authority).map_or(now, |facts| facts.valid.until);
        let valid = Valid { until: ends.min(now + lives.serving), ..lasting(now, lives) };
        let serving = Authority::again(authority, valid).certify(CALLED, names.to_vec(), valid)?;
        Ok(Kept { serving: Some(serving), ..self })
    }

    /// The Secret that holds it.
    #[must_use]
    pub fn secret(&self, namespace: &str, name: &str) -> Tree {
        let data = self.data();
        let data = Tree::map(data.entries().iter().filter(|(_, value)| !value.is_null()).cloned());
        tree!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace, "annotations": (mark())},
            "type": "kubernetes.io/tls",
            "data": data,
        })
    }

    /// The change that makes a Secret hold it.
    #[must_use]
    pub fn patch(&self) -> Tree {
        tree!({"metadata": {"annotations": (mark())}, "data": (self.data())})
    }

    /// Whether that would change this Secret.
    #[must_use]
    pub fn differs(&self, secret: &Tree) -> bool {
        secret.merge(&self.patch()) != *secret
    }

    fn data(&self) -> Tree {
        let encoded = |text: Option<&str>| text.map_or(Tree::Null, |it| BASE64_STANDARD.encode(it).into());
        let pair = |keys: [&'static str; 2], it: &Option<Certified>| {
            let (certificate, key) = it.as_ref().map(|it| (it.certificate.as_str(), it.key.as_str())).unzip();
            [(keys[0], encoded(certificate)), (keys[1], encoded(key))]
        };
        let pairs = [pair(SERVING, &self.serving), pair(AUTHORITY, &self.authority), pair(NEXT, &self.next)];
        let single = [(TRUSTED, encoded(Some(&self.bundle()))), (FORMER, encoded(self.former()))];
        Tree::map(pairs.into_iter().flatten().chain(single))
    }
}

fn mark() -> Tree {
    Tree::map([(annotations::CERTIFICATES, MADE_FOR)])
}

fn lasting(now: Time, lives: &Lifetimes) -> Valid {
    let before = i64::try_from(BACKDATED.as_micros()).unwrap_or_default();
    Valid { from: Time(now.0 - before), until: now + lives.authority }
}

/// A new one; its name tells it from others.
fn authority(now: Time, lives: &Lifetimes) -> Result<Certified, IdentityError> {
    let name = format!("{AUTHORITY_CALLED}-{}", now.0 / 1_000_000);
    Ok(Authority::lasting(&name, lasting(now, lives))?.kept())
}

#[cfg(test)]
mod tests;
