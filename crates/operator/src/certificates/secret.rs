//! The codec of the certificate Secret: parse, verify, rotate, encode.
//!
//! Pure but for the entropy of new keys.
//!
//! # Guarantees
//!
//! - A Secret that is neither ours nor empty is never written.
//! - `tls.crt`, `tls.key` and `ca.crt` are those of any Secret of type `kubernetes.io/tls`; `ca.crt` is the CA bundle of
//!   the API servers. The other keys are our own.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use muster_api::consts::annotations;
use muster_api::meta;
use muster_api::time::Time;
use muster_apiserver::http::certificate::{is_trusted, parse, parse_pair};
use muster_apiserver::http::certificate_authority::{CertKeyPair, CertificateAuthority, Validity};
use muster_apiserver::http::identity::IdentityError;
use muster_tree::{Tree, tree};

use super::rotation_step::{CertificateSnapshot, RotationStep};
use super::{BACKDATED, CertificateLifetimes};

/// The keys of the Secret.
const SERVING: [&str; 2] = ["tls.crt", "tls.key"];
const CA: [&str; 2] = ["authority.crt", "authority.key"];
const NEXT_CA: [&str; 2] = ["next-authority.crt", "next-authority.key"];
const FORMER_CA: &str = "former-authority.crt";
const CA_BUNDLE: &str = "ca.crt";
/// The value of our Secret's annotation.
const MADE_FOR: &str = "webhooks";
/// Subject names; a CA must not have the subject of what it signs.
const SERVING_SUBJECT: &str = "muster-webhooks";
const CA_SUBJECT: &str = "muster-webhooks-ca";

pub enum CertificateSecret {
    /// Our Secret or an empty one, and its contents.
    Owned(CertificateSet),
    Foreign(String),
}

/// Certificates and keys in PEM.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct CertificateSet {
    ca: Option<CertKeyPair>,
    next_ca: Option<CertKeyPair>,
    former_ca: Option<String>,
    serving: Option<CertKeyPair>,
}

impl CertificateSecret {
    #[must_use]
    pub fn of(secret: Option<&Tree>) -> CertificateSecret {
        let Some(secret) = secret else { return CertificateSecret::Owned(CertificateSet::default()) };
        let data = secret.entries_at(&["data"]);
        let full = data.iter().find(|(_, value)| value.as_str().is_some_and(|it| !it.is_empty()));
        match (meta::annotation(secret, annotations::CERTIFICATES), full) {
            (Some(MADE_FOR), _) | (_, None) => {
                CertificateSecret::Owned(CertificateSet::of(secret).without_damaged_parts())
            }
            (_, Some((key, _))) => CertificateSecret::Foreign(format!(
                "it holds {key:?} and has no annotation {}={MADE_FOR}, so it belongs to another owner",
                annotations::CERTIFICATES
            )),
        }
    }
}

impl CertificateSet {
    fn of(secret: &Tree) -> CertificateSet {
        let text = |key: &str| {
            let bytes = BASE64_STANDARD.decode(secret.str_at(&["data", key])).ok()?;
            String::from_utf8(bytes).ok().filter(|text| !text.is_empty())
        };
        let pair = |[certificate, key]: [&str; 2]| {
            Some(CertKeyPair { certificate: text(certificate)?, key: text(key)? })
        };
        CertificateSet {
            ca: pair(CA),
            next_ca: pair(NEXT_CA),
            former_ca: text(FORMER_CA),
            serving: pair(SERVING),
        }
    }

    /// What of it is usable for a server with these DNS names.
    #[must_use]
    pub fn snapshot(&self, names: &[String]) -> CertificateSnapshot {
        let authority = |it: &Option<CertKeyPair>| {
            let facts = it.as_ref().and_then(parse_pair).filter(|facts| facts.is_ca);
            facts.map(|facts| facts.valid)
        };
        CertificateSnapshot {
            ca: authority(&self.ca),
            next_ca: authority(&self.next_ca),
            has_former_ca: self.former_ca.as_deref().and_then(parse).is_some(),
            serving: self.serving_pair(names).and_then(parse_pair).map(|facts| facts.valid),
        }
    }

    /// The serving pair, if the current CA signed it for these DNS names and its key is present.
    #[must_use]
    pub fn serving_pair(&self, names: &[String]) -> Option<&CertKeyPair> {
        let (authority, serving) = (self.ca.as_ref()?, self.serving.as_ref()?);
        let facts = parse_pair(serving).filter(|facts| names.iter().all(|it| facts.names.contains(it)))?;
        // Validity is checked at the end of the certificate, not now: clocks differ, and expiry is the caller's question.
        let trusted =
            is_trusted(&serving.certificate, &authority.certificate, names.first()?, facts.valid.until);
        trusted.then_some(serving)
    }

    /// The CA bundle, PEM; empty when there is no CA.
    #[must_use]
    pub fn ca_bundle(&self) -> String {
        let of = |it: &Option<CertKeyPair>| it.as_ref().map(|it| it.certificate.clone());
        let all = [of(&self.ca), of(&self.next_ca), self.former_ca.clone()].into_iter().flatten();
        // An edited PEM may lack its last newline, and would swallow the header of the next certificate.
        all.map(|it| format!("{}\n", it.trim_end())).collect()
    }

    /// The former CA's certificate, PEM.
    #[must_use]
    pub fn former_ca(&self) -> Option<&str> {
        self.former_ca.as_deref()
    }

    /// Without unparsable parts: they would invalidate the whole CA bundle.
    fn without_damaged_parts(&self) -> CertificateSet {
        let usable = |it: &Option<CertKeyPair>| it.clone().filter(|it| parse_pair(it).is_some());
        let former = self.former_ca.clone().filter(|it| parse(it).is_some());
        CertificateSet {
            ca: usable(&self.ca),
            next_ca: usable(&self.next_ca),
            former_ca: former,
            serving: usable(&self.serving),
        }
    }

    /// The contents after a step; `before` are the last good contents in memory.
    ///
    /// # Errors
    /// Keys cannot be generated.
    pub fn apply_step(
        &self,
        step: RotationStep,
        before: Option<&CertificateSet>,
        names: &[String],
        now: Time,
        lives: &CertificateLifetimes,
    ) -> Result<CertificateSet, IdentityError> {
        let held = self.clone();
        match step {
            RotationStep::Wait(_) => Ok(held),
            RotationStep::RemoveFormerCa => Ok(CertificateSet { former_ca: None, ..held }),
            RotationStep::AddNextCa => Ok(CertificateSet { next_ca: Some(new_ca(now, lives)?), ..held }),
            RotationStep::Restore => {
                let before = before.unwrap_or(&held).clone();
                // Deleting the CA keys asks for another CA: the old one is restored so that there is no gap, and rotated.
                let next = if before.former_ca.is_none() { Some(new_ca(now, lives)?) } else { None };
                Ok(CertificateSet { next_ca: next, ..before })
            }
            RotationStep::CreateAll => {
                CertificateSet { ca: Some(new_ca(now, lives)?), ..CertificateSet::default() }
                    .with_new_serving_pair(names, now, lives)
            }
            RotationStep::RenewServing => held.with_new_serving_pair(names, now, lives),
            RotationStep::SwitchCa => {
                let former = held.ca.map(|it| it.certificate);
                CertificateSet { ca: held.next_ca, next_ca: None, former_ca: former, ..held }
                    .with_new_serving_pair(names, now, lives)
            }
        }
    }

    fn with_new_serving_pair(
        self,
        names: &[String],
        now: Time,
        lives: &CertificateLifetimes,
    ) -> Result<CertificateSet, IdentityError> {
        let Some(authority) = &self.ca else { return Ok(self) };
        let ends = parse_pair(authority).map_or(now, |facts| facts.valid.until);
        let valid = Validity { until: ends.min(now + lives.serving), ..ca_validity(now, lives) };
        let serving = CertificateAuthority::from_pair(authority, valid).issue_server_cert(
            SERVING_SUBJECT,
            names.to_vec(),
            valid,
        )?;
        Ok(CertificateSet { serving: Some(serving), ..self })
    }

    /// The Secret to create.
    #[must_use]
    pub fn secret(&self, namespace: &str, name: &str) -> Tree {
        let data = self.data();
        let data = Tree::map(data.entries().iter().filter(|(_, value)| !value.is_null()).cloned());
        tree!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace, "annotations": (owner_annotation())},
            "type": "kubernetes.io/tls",
            "data": data,
        })
    }

    /// The merge patch for an existing Secret; absent parts become `null`.
    #[must_use]
    pub fn patch(&self) -> Tree {
        tree!({"metadata": {"annotations": (owner_annotation())}, "data": (self.data())})
    }

    /// Whether that would change this Secret.
    #[must_use]
    pub fn differs(&self, secret: &Tree) -> bool {
        secret.merge(&self.patch()) != *secret
    }

    fn data(&self) -> Tree {
        let encoded = |text: Option<&str>| text.map_or(Tree::Null, |it| BASE64_STANDARD.encode(it).into());
        let pair = |keys: [&'static str; 2], it: &Option<CertKeyPair>| {
            let (certificate, key) = it.as_ref().map(|it| (it.certificate.as_str(), it.key.as_str())).unzip();
            [(keys[0], encoded(certificate)), (keys[1], encoded(key))]
        };
        let pairs = [pair(SERVING, &self.serving), pair(CA, &self.ca), pair(NEXT_CA, &self.next_ca)];
        let single = [(CA_BUNDLE, encoded(Some(&self.ca_bundle()))), (FORMER_CA, encoded(self.former_ca()))];
        Tree::map(pairs.into_iter().flatten().chain(single))
    }
}

fn owner_annotation() -> Tree {
    Tree::map([(annotations::CERTIFICATES, MADE_FOR)])
}

fn ca_validity(now: Time, lives: &CertificateLifetimes) -> Validity {
    let before = i64::try_from(BACKDATED.as_micros()).unwrap_or_default();
    Validity { from: Time(now.0 - before), until: now + lives.ca }
}

/// A new CA. Its name contains the time, to distinguish it from former ones.
fn new_ca(now: Time, lives: &CertificateLifetimes) -> Result<CertKeyPair, IdentityError> {
    let name = format!("{CA_SUBJECT}-{}", now.0 / 1_000_000);
    Ok(CertificateAuthority::generate(&name, ca_validity(now, lives))?.pair())
}

#[cfg(test)]
mod tests;
