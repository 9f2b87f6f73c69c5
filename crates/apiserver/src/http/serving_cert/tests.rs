//! Handshakes while the serving certificate changes.

use std::sync::Arc;

use muster_api::time::Time;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ProtocolVersion, RootCertStore, ServerConnection};

use super::super::certificate_authority::{CertificateAuthority, Validity, provider};
use super::*;

fn valid() -> Validity {
    Validity { from: Time(0), until: Time(i64::MAX) }
}

fn suites(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// An in-memory handshake: the negotiated version, or the error.
fn handshake(
    server: &Arc<rustls::ServerConfig>,
    authority: &CertificateAuthority,
    versions: &[&'static SupportedProtocolVersion],
) -> Result<ProtocolVersion, String> {
    let wrong = |e: rustls::Error| e.to_string();
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().unwrap()).unwrap();
    let client = ClientConfig::builder_with_provider(provider()).with_protocol_versions(versions).unwrap();
    let client = Arc::new(client.with_root_certificates(roots).with_no_client_auth());
    let mut client = ClientConnection::new(client, ServerName::try_from("s.n.svc").unwrap()).unwrap();
    let mut server = ServerConnection::new(server.clone()).unwrap();
    while client.is_handshaking() || server.is_handshaking() {
        let mut wire = Vec::new();
        client.write_tls(&mut wire).unwrap();
        server.read_tls(&mut wire.as_slice()).unwrap();
        server.process_new_packets().map_err(wrong)?;
        let mut wire = Vec::new();
        server.write_tls(&mut wire).unwrap();
        client.read_tls(&mut wire.as_slice()).unwrap();
        client.process_new_packets().map_err(wrong)?;
    }
    Ok(client.protocol_version().unwrap())
}

#[test]
fn new_handshakes_get_the_current_certificate() {
    let [one, other] = ["a", "b"].map(|name| CertificateAuthority::generate(name, valid()).unwrap());
    let serving = Arc::new(ServingCertResolver::default());
    let config = Arc::new(serving.config(&TlsOptions::default()).unwrap());
    assert!(handshake(&config, &one, &[&TLS13]).is_err(), "no certificate yet");
    serving.set(&one.issue_server_cert("s", suites(&["s.n.svc"]), valid()).unwrap()).unwrap();
    assert!(handshake(&config, &one, &[&TLS13]).is_ok());
    assert!(handshake(&config, &other, &[&TLS13]).is_err());
    let next = other.issue_server_cert("s", suites(&["s.n.svc"]), valid()).unwrap();
    serving.set(&next).unwrap();
    assert!(handshake(&config, &other, &[&TLS13]).is_ok(), "without a restart");
    for damaged in [
        CertKeyPair { key: "-".to_owned(), ..next.clone() },
        CertKeyPair { certificate: "-".to_owned(), ..next.clone() },
        CertKeyPair { key: one.pair().key, ..next },
    ] {
        assert!(serving.set(&damaged).is_err());
        assert!(handshake(&config, &other, &[&TLS13]).is_ok(), "an invalid certificate is not installed");
    }
}

#[test]
fn minimum_version_and_cipher_suites_are_enforced() {
    let authority = CertificateAuthority::generate("a", valid()).unwrap();
    let serving = Arc::new(ServingCertResolver::default());
    serving.set(&authority.issue_server_cert("s", suites(&["s.n.svc"]), valid()).unwrap()).unwrap();
    let strong = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384";
    for (says, tls, old, new) in [
        ("both by default", TlsOptions::parse("", &[]), true, true),
        ("the same by name", TlsOptions::parse("VersionTLS12", &[]), true, true),
        ("TLS 1.3 only", TlsOptions::parse("VersionTLS13", &[]), false, true),
        ("a suite for ECDSA keys", TlsOptions::parse("", &suites(&[strong])), true, true),
        (
            "a suite for RSA keys leaves TLS 1.3 only",
            TlsOptions::parse("", &suites(&["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"])),
            false,
            true,
        ),
    ] {
        let config = Arc::new(serving.config(&tls.unwrap()).unwrap());
        assert_eq!(handshake(&config, &authority, &[&TLS12]).is_ok(), old, "{says}");
        assert_eq!(handshake(&config, &authority, &[&TLS13]).is_ok(), new, "{says}");
    }
    let left = TlsOptions::parse("", &suites(&[strong, "TLS_RSA_WITH_AES_128_CBC_SHA"])).unwrap();
    assert_eq!(left.ignored_suites(), ["TLS_RSA_WITH_AES_128_CBC_SHA"]);
    for (version, names, want) in [
        ("VersionTLS11", &[][..], TlsOptionsError::Version("VersionTLS11".to_owned())),
        ("VersionTLS13", &[strong], TlsOptionsError::Suites),
        ("", &["TLS_NONE"], TlsOptionsError::Suite("TLS_NONE".to_owned())),
        ("", &["TLS_RSA_WITH_AES_128_CBC_SHA"], TlsOptionsError::None),
    ] {
        assert_eq!(TlsOptions::parse(version, &suites(names)).unwrap_err(), want);
    }
    assert!(TlsOptionsError::None.to_string().contains(strong), "the error lists the known suites");
}
