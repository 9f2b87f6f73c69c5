//! What a certificate says, and whether it belongs to a key and an authority.
//!
//! Pure: texts in, facts out. What cannot be read has no facts.

use std::sync::Arc;

use muster_api::time::Time;
use muster_tree::Text;
use rcgen::{KeyPair, PublicKeyData};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::auth::user_of_certificate;
use super::authority::{Certified, Valid, provider};

/// What a certificate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// When it is valid.
    pub valid: Valid,
    /// The DNS names it is for, in its order.
    pub names: Vec<String>,
    /// Whether it may certify others.
    pub is_authority: bool,
}

/// The facts of a certificate in PEM, if that is its key.
#[must_use]
pub fn facts(of: &Certified) -> Option<Facts> {
    let der = CertificateDer::from_pem_slice(of.certificate.as_bytes()).ok()?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    let key = KeyPair::from_pem(&of.key).ok()?;
    (certificate.public_key().raw == key.subject_public_key_info()).then(|| told(&certificate))
}

/// The facts of a certificate in PEM, whoever has its key.
#[must_use]
pub fn facts_alone(pem: &str) -> Option<Facts> {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
    Some(told(&X509Certificate::from_der(&der).ok()?.1))
}

fn told(certificate: &X509Certificate<'_>) -> Facts {
    let moment = |seconds: i64| Time(seconds.saturating_mul(1_000_000));
    let validity = certificate.validity();
    let valid = Valid {
        from: moment(validity.not_before.timestamp()),
        until: moment(validity.not_after.timestamp()),
    };
    let alternatives = certificate.subject_alternative_name().ok().flatten();
    let names = alternatives.iter().flat_map(|it| &it.value.general_names);
    let dns = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    };
    Facts { valid, names: names.filter_map(dns).collect(), is_authority: certificate.is_ca() }
}

/// Whether a client that trusts this authority alone takes the certificate for one of a server called `name`, at this
/// moment. Both are PEM.
#[must_use]
pub fn is_trusted(certificate: &str, authority: &str, name: &str, now: Time) -> bool {
    let trusted = || {
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).ok()?;
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).ok()?).ok()?;
        let client = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build().ok()?;
        let name = ServerName::try_from(name).ok()?;
        client.verify_server_cert(&certificate, &[], &name, &[], moment(now)?).ok()
    };
    trusted().is_some()
}

/// The common name of a client who shows these certificates (DER: his own, then those between), if one of these
/// authorities (PEM) vouches for him at this moment.
#[must_use]
pub fn vouched(shown: &[Vec<u8>], authorities: &str, now: Time) -> Option<Text> {
    let chain: Vec<CertificateDer<'_>> =
        shown.iter().map(|der| CertificateDer::from(der.as_slice())).collect();
    let (own, between) = chain.split_first()?;
    let mut roots = RootCertStore::empty();
    let authorities = CertificateDer::pem_slice_iter(authorities.as_bytes()).filter_map(Result::ok);
    roots.add_parsable_certificates(authorities);
    let server = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build().ok()?;
    server.verify_client_cert(own, between, moment(now)?).ok()?;
    user_of_certificate(own).map(|it| it.name)
}

fn moment(now: Time) -> Option<UnixTime> {
    let seconds = u64::try_from(now.0 / 1_000_000).ok()?;
    Some(UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds)))
}

#[cfg(test)]
mod tests {
    use super::super::authority::Authority;
    use super::*;

    const DAY: i64 = 86_400_000_000;

    fn authority(name: &str) -> Authority {
        Authority::lasting(name, ours_valid()).unwrap()
    }

    #[test]
    fn certificates_last_by_the_second_and_belong_to_one_authority() {
        let (ours, other) = (authority("a"), authority("a"));
        let valid = Valid { from: Time(2 * DAY), until: Time(2 * DAY + 5_000_000) };
        let served = ours.certify("s", vec!["s.n.svc".to_owned()], valid).unwrap();
        let facts = facts(&served).unwrap();
        assert_eq!(facts, Facts { valid, names: vec!["s.n.svc".to_owned()], is_authority: false });
        let trusted = |by: &Authority, name, at| is_trusted(&served.certificate, by.certificate(), name, at);
        assert!(trusted(&ours, "s.n.svc", valid.from));
        assert!(trusted(&ours, "s.n.svc", valid.until));
        assert!(!trusted(&ours, "s.n.svc", Time(valid.until.0 + 1_000_000)), "no longer");
        assert!(!trusted(&ours, "s.n.svc", Time(valid.from.0 - 1_000_000)), "not yet");
        assert!(!trusted(&ours, "t.n.svc", valid.from), "another name");
        assert!(!trusted(&other, "s.n.svc", valid.from), "another authority of the same name");
    }

    #[test]
    fn a_client_is_vouched_for_by_his_authority_alone() {
        let (ours, other) = (authority("a"), authority("a"));
        let der =
            |it: &Certified| CertificateDer::from_pem_slice(it.certificate.as_bytes()).unwrap().to_vec();
        let client = der(&ours.client("proxy", "g").unwrap());
        let server = der(&ours.certify("proxy", vec!["s".to_owned()], ours_valid()).unwrap());
        let both = format!("{}{}", other.certificate(), ours.certificate());
        for (says, shown, authorities, at, want) in [
            ("his own", vec![client.clone()], ours.certificate(), 2 * DAY, true),
            ("one of several", vec![client.clone()], &both, 2 * DAY, true),
            ("another of the same name", vec![client.clone()], other.certificate(), 2 * DAY, false),
            ("nobody", vec![client.clone()], "", 2 * DAY, false),
            ("too late", vec![client], ours.certificate(), 30 * DAY, false),
            ("a server is no client", vec![server], ours.certificate(), 2 * DAY, false),
            ("nothing is shown", vec![], ours.certificate(), 2 * DAY, false),
        ] {
            let name = vouched(&shown, authorities, Time(at));
            assert_eq!(name.as_deref(), want.then_some("proxy"), "{says}");
        }
    }

    fn ours_valid() -> Valid {
        Valid { from: Time(DAY), until: Time(20 * DAY) }
    }

    #[test]
    fn a_key_of_another_is_told() {
        let [mut one, other] = [authority("a").kept(), authority("b").kept()];
        assert!(facts(&one).unwrap().is_authority);
        one.key = other.key;
        assert_eq!(facts(&one), None);
        assert!(facts_alone(&one.certificate).is_some());
        assert_eq!(facts_alone("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), None);
        assert_eq!(facts_alone(""), None);
    }

    #[test]
    fn certificates_end_with_the_calendar() {
        let valid = Valid { from: Time(-1), until: Time(i64::MAX) };
        let facts = facts(&Authority::lasting("a", valid).unwrap().kept()).unwrap();
        assert_eq!(facts.valid.from, Time(0));
        assert_eq!(facts.valid.until, Time(253_402_300_799_000_000), "the last second of the year 9999");
    }
}
