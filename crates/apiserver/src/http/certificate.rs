//! Parses certificates and verifies them against keys and CAs.
//!
//! Pure. Input that cannot be parsed gives `None`.

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

use super::authentication::user_of_certificate;
use super::certificate_authority::{CertKeyPair, Validity, provider};

/// The fields of a certificate that rotation depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateInfo {
    pub valid: Validity,
    /// DNS names among the subject alternative names, in order.
    pub names: Vec<String>,
    /// The CA flag of the basic constraints.
    pub is_ca: bool,
}

/// Parses a PEM certificate; `None` unless the key is its own.
#[must_use]
pub fn parse_pair(of: &CertKeyPair) -> Option<CertificateInfo> {
    let der = CertificateDer::from_pem_slice(of.certificate.as_bytes()).ok()?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    let key = KeyPair::from_pem(&of.key).ok()?;
    (certificate.public_key().raw == key.subject_public_key_info()).then(|| info(&certificate))
}

/// Parses a PEM certificate without its key.
#[must_use]
pub fn parse(pem: &str) -> Option<CertificateInfo> {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
    Some(info(&X509Certificate::from_der(&der).ok()?.1))
}

fn info(certificate: &X509Certificate<'_>) -> CertificateInfo {
    let unix_time = |seconds: i64| Time(seconds.saturating_mul(1_000_000));
    let validity = certificate.validity();
    let valid = Validity {
        from: unix_time(validity.not_before.timestamp()),
        until: unix_time(validity.not_after.timestamp()),
    };
    let alternatives = certificate.subject_alternative_name().ok().flatten();
    let names = alternatives.iter().flat_map(|it| &it.value.general_names);
    let dns = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    };
    CertificateInfo { valid, names: names.filter_map(dns).collect(), is_ca: certificate.is_ca() }
}

/// Whether a client with this CA alone accepts the certificate for the server `name` at this time. Both are PEM.
#[must_use]
pub fn is_trusted(certificate: &str, authority: &str, name: &str, now: Time) -> bool {
    let trusted = || {
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).ok()?;
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).ok()?).ok()?;
        let client = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build().ok()?;
        let name = ServerName::try_from(name).ok()?;
        client.verify_server_cert(&certificate, &[], &name, &[], unix_time(now)?).ok()
    };
    trusted().is_some()
}

/// Verifies a client certificate chain (DER: leaf, then intermediates) against these CAs (PEM) and returns the common
/// name of the leaf.
#[must_use]
pub fn verify_client_chain(shown: &[Vec<u8>], authorities: &str, now: Time) -> Option<Text> {
    let chain: Vec<CertificateDer<'_>> =
        shown.iter().map(|der| CertificateDer::from(der.as_slice())).collect();
    let (own, between) = chain.split_first()?;
    let mut roots = RootCertStore::empty();
    let authorities = CertificateDer::pem_slice_iter(authorities.as_bytes()).filter_map(Result::ok);
    roots.add_parsable_certificates(authorities);
    let server = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build().ok()?;
    server.verify_client_cert(own, between, unix_time(now)?).ok()?;
    user_of_certificate(own).map(|it| it.name)
}

fn unix_time(now: Time) -> Option<UnixTime> {
    let seconds = u64::try_from(now.0 / 1_000_000).ok()?;
    Some(UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds)))
}

#[cfg(test)]
mod tests {
    use super::super::certificate_authority::CertificateAuthority;
    use super::*;

    const DAY: i64 = 86_400_000_000;

    fn authority(name: &str) -> CertificateAuthority {
        CertificateAuthority::generate(name, ours_valid()).unwrap()
    }

    #[test]
    fn validity_is_exact_to_the_second_and_bound_to_one_ca() {
        let (ours, other) = (authority("a"), authority("a"));
        let valid = Validity { from: Time(2 * DAY), until: Time(2 * DAY + 5_000_000) };
        let served = ours.issue_server_cert("s", vec!["s.n.svc".to_owned()], valid).unwrap();
        let facts = parse_pair(&served).unwrap();
        assert_eq!(facts, CertificateInfo { valid, names: vec!["s.n.svc".to_owned()], is_ca: false });
        let trusted =
            |by: &CertificateAuthority, name, at| is_trusted(&served.certificate, by.certificate(), name, at);
        assert!(trusted(&ours, "s.n.svc", valid.from));
        assert!(trusted(&ours, "s.n.svc", valid.until));
        assert!(!trusted(&ours, "s.n.svc", Time(valid.until.0 + 1_000_000)), "expired");
        assert!(!trusted(&ours, "s.n.svc", Time(valid.from.0 - 1_000_000)), "not yet");
        assert!(!trusted(&ours, "t.n.svc", valid.from), "another name");
        assert!(!trusted(&other, "s.n.svc", valid.from), "another CA of the same name");
    }

    #[test]
    fn client_certificates_are_verified_against_their_ca_only() {
        let (ours, other) = (authority("a"), authority("a"));
        let der =
            |it: &CertKeyPair| CertificateDer::from_pem_slice(it.certificate.as_bytes()).unwrap().to_vec();
        let client = der(&ours.issue_client_cert("proxy", "g").unwrap());
        let server = der(&ours.issue_server_cert("proxy", vec!["s".to_owned()], ours_valid()).unwrap());
        let both = format!("{}{}", other.certificate(), ours.certificate());
        for (says, shown, authorities, at, want) in [
            ("the issuing CA", vec![client.clone()], ours.certificate(), 2 * DAY, true),
            ("a bundle that contains the CA", vec![client.clone()], &both, 2 * DAY, true),
            ("another CA of the same name", vec![client.clone()], other.certificate(), 2 * DAY, false),
            ("no CA", vec![client.clone()], "", 2 * DAY, false),
            ("expired", vec![client], ours.certificate(), 30 * DAY, false),
            ("a serving certificate", vec![server], ours.certificate(), 2 * DAY, false),
            ("no certificate", vec![], ours.certificate(), 2 * DAY, false),
        ] {
            let name = verify_client_chain(&shown, authorities, Time(at));
            assert_eq!(name.as_deref(), want.then_some("proxy"), "{says}");
        }
    }

    fn ours_valid() -> Validity {
        Validity { from: Time(DAY), until: Time(20 * DAY) }
    }

    #[test]
    fn the_key_of_another_certificate_is_rejected() {
        let [mut one, other] = [authority("a").pair(), authority("b").pair()];
        assert!(parse_pair(&one).unwrap().is_ca);
        one.key = other.key;
        assert_eq!(parse_pair(&one), None);
        assert!(parse(&one.certificate).is_some());
        assert_eq!(parse("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn not_after_is_capped_at_the_year_9999() {
        let valid = Validity { from: Time(-1), until: Time(i64::MAX) };
        let facts = parse_pair(&CertificateAuthority::generate("a", valid).unwrap().pair()).unwrap();
        assert_eq!(facts.valid.from, Time(0));
        assert_eq!(facts.valid.until, Time(253_402_300_799_000_000), "the last second of the year 9999");
    }
}
