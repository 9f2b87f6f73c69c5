//! What clients see of a server whose certificate changes.

use std::sync::Arc;

use muster_api::time::Time;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ProtocolVersion, RootCertStore, ServerConnection};

use super::super::authority::{Authority, Valid, provider};
use super::*;

fn valid() -> Valid {
    Valid { from: Time(0), until: Time(i64::MAX) }
}

fn suites(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// A handshake in memory: the version agreed on, or why there is none.
fn handshake(
    server: &Arc<rustls::ServerConfig>,
    authority: &Authority,
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
fn new_connections_get_what_is_held_now() {
    let [one, other] = ["a", "b"].map(|name| Authority::lasting(name, valid()).unwrap());
    let serving = Arc::new(Serving::default());
    let config = Arc::new(serving.config(&Tls::default()).unwrap());
    assert!(handshake(&config, &one, &[&TLS13]).is_err(), "nothing is held yet");
    serving.hold(&one.certify("s", suites(&["s.n.svc"]), valid()).unwrap()).unwrap();
    assert!(handshake(&config, &one, &[&TLS13]).is_ok());
    assert!(handshake(&config, &other, &[&TLS13]).is_err());
    let next = other.certify("s", suites(&["s.n.svc"]), valid()).unwrap();
    serving.hold(&next).unwrap();
    assert!(handshake(&config, &other, &[&TLS13]).is_ok(), "without a restart");
    for damaged in [
        Certified { key: "-".to_owned(), ..next.clone() },
        Certified { certificate: "-".to_owned(), ..next.clone() },
        Certified { key: one.kept().key, ..next },
    ] {
        assert!(serving.hold(&damaged).is_err());
        assert!(handshake(&config, &other, &[&TLS13]).is_ok(), "what is damaged changes nothing");
    }
}

#[test]
fn the_oldest_version_and_the_suites_are_as_told() {
    let authority = Authority::lasting("a", valid()).unwrap();
    let serving = Arc::new(Serving::default());
    serving.hold(&authority.certify("s", suites(&["s.n.svc"]), valid()).unwrap()).unwrap();
    let strong = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384";
    for (says, tls, old, new) in [
        ("both by default", Tls::parse("", &[]), true, true),
        ("the same by name", Tls::parse("VersionTLS12", &[]), true, true),
        ("the newest alone", Tls::parse("VersionTLS13", &[]), false, true),
        ("a suite that fits our keys", Tls::parse("", &suites(&[strong])), true, true),
        (
            "one that does not leaves the newest version",
            Tls::parse("", &suites(&["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"])),
            false,
            true,
        ),
    ] {
        let config = Arc::new(serving.config(&tls.unwrap()).unwrap());
        assert_eq!(handshake(&config, &authority, &[&TLS12]).is_ok(), old, "{says}");
        assert_eq!(handshake(&config, &authority, &[&TLS13]).is_ok(), new, "{says}");
    }
    let left = Tls::parse("", &suites(&[strong, "TLS_RSA_WITH_AES_128_CBC_SHA"])).unwrap();
    assert_eq!(left.left_out(), ["TLS_RSA_WITH_AES_128_CBC_SHA"]);
    for (version, names, want) in [
        ("VersionTLS11", &[][..], TlsError::Version("VersionTLS11".to_owned())),
        ("VersionTLS13", &[strong], TlsError::Suites),
        ("", &["TLS_NONE"], TlsError::Suite("TLS_NONE".to_owned())),
        ("", &["TLS_RSA_WITH_AES_128_CBC_SHA"], TlsError::None),
    ] {
        assert_eq!(Tls::parse(version, &suites(names)).unwrap_err(), want);
    }
    assert!(TlsError::None.to_string().contains(strong), "a refusal tells what there is");
}
