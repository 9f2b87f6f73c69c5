//! Client certificates of version 1: rebuilt from a certificate of version 3 without its version and extensions.

use muster_api::time::Time;
use rcgen::{KeyPair, SigningKey};
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ClientConnection, ServerConnection};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{PrivateKeyDer, ServerName};

use super::super::authentication::user_of_certificate;
use super::super::certificate_authority::{CertKeyPair, CertificateAuthority, Validity};
use super::*;

const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;

fn validity() -> Validity {
    let now = i64::try_from(UnixTime::now().as_secs()).unwrap();
    let at = |secs: i64| Time((now + secs) * 1_000_000);
    Validity { from: at(-3_600), until: at(3_600) }
}

fn ca() -> CertificateAuthority {
    CertificateAuthority::generate("ca", validity()).unwrap()
}

/// The elements of a DER sequence, each with its header.
fn elements(sequence: &[u8]) -> Vec<&[u8]> {
    let content = |der: &[u8]| match der[1] {
        length @ 0..=0x7f => (2, usize::from(length)),
        0x81 => (3, usize::from(der[2])),
        _ => (4, usize::from(u16::from_be_bytes([der[2], der[3]]))),
    };
    let mut rest = &sequence[content(sequence).0..];
    let mut all = Vec::new();
    while !rest.is_empty() {
        let (header, length) = content(rest);
        let (first, after) = rest.split_at(header + length);
        all.push(first);
        rest = after;
    }
    all
}

fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[tag, 0x82, length[0], length[1]], content].concat()
}

/// The certificate as one of version 1, signed anew by this key.
fn as_version1(certificate: &CertKeyPair, signer: &KeyPair) -> CertificateDer<'static> {
    let der = CertificateDer::from_pem_slice(certificate.certificate.as_bytes()).unwrap();
    let signed = elements(&der)[0];
    // Version, then serial number to public key, then extensions.
    let fields = &elements(signed)[1..7];
    let signed = element(SEQUENCE, &fields.concat());
    let signature = [&[0][..], &signer.sign(&signed).unwrap()].concat();
    let whole = [&signed[..], fields[1], &element(BIT_STRING, &signature)].concat();
    CertificateDer::from(element(SEQUENCE, &whole))
}

fn verify(ca: &CertificateAuthority, leaf: &CertificateDer<'_>, secs: i64) -> Result<(), rustls::Error> {
    let at = UnixTime::since_unix_epoch(std::time::Duration::from_secs(
        UnixTime::now().as_secs().saturating_add_signed(secs),
    ));
    ClientVerifier::new(ca.der().unwrap()).unwrap().verify_client_cert(leaf, &[], at).map(|_| ())
}

#[test]
fn a_version_1_client_certificate_needs_the_signature_of_the_client_ca() {
    let (ours, other) = (ca(), ca());
    let client = ours.issue_client_cert("alice", "team").unwrap();
    let key = |of: &CertificateAuthority| KeyPair::from_pem(&of.pair().key).unwrap();
    let leaf = as_version1(&client, &key(&ours));
    let forged = as_version1(&client, &key(&other));
    assert_eq!(read(&leaf).unwrap().version(), X509Version::V1);
    let user = user_of_certificate(&leaf).unwrap();
    assert_eq!((user.name.as_str(), user.groups.len()), ("alice", 1));
    let bad = |error: CertificateError| Err(rustls::Error::InvalidCertificate(error));
    for (says, ca, leaf, secs, want) in [
        ("signed by the client CA", &ours, &leaf, 0, Ok(())),
        ("signed by another CA of the same name", &ours, &forged, 0, bad(CertificateError::BadSignature)),
        ("expired", &ours, &leaf, 7_200, bad(CertificateError::Expired)),
        ("not valid yet", &ours, &leaf, -7_200, bad(CertificateError::NotValidYet)),
    ] {
        assert_eq!(verify(ca, leaf, secs), want, "{says}");
    }
}

#[derive(Debug)]
struct Presents(Arc<CertifiedKey>);

impl ResolvesClientCert for Presents {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Shakes hands in memory; the certificate that the server has of its client at the end.
fn handshake(
    ca: &CertificateAuthority,
    leaf: CertificateDer<'static>,
    key: &str,
    version: &'static rustls::SupportedProtocolVersion,
) -> Result<Vec<u8>, rustls::Error> {
    let provider = certificate_authority::provider();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let key = provider.key_provider.load_private_key(key).unwrap();
    let presents = Presents(Arc::new(CertifiedKey::new(vec![leaf], key)));
    let mut roots = RootCertStore::empty();
    roots.add(ca.der().unwrap()).unwrap();
    let servers =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap();
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_webpki_verifier(servers)
        .with_client_cert_resolver(Arc::new(presents));
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let clients = Arc::new(ClientVerifier::new(ca.der().unwrap()).unwrap());
    let config = ca.server_config("server", vec!["localhost".to_owned()], Some(clients)).unwrap();
    let mut server = ServerConnection::new(Arc::new(config)).unwrap();
    for _ in 0..4 {
        let mut wire = Vec::new();
        client.write_tls(&mut wire).unwrap();
        server.read_tls(&mut &wire[..]).unwrap();
        server.process_new_packets()?;
        let mut wire = Vec::new();
        server.write_tls(&mut wire).unwrap();
        client.read_tls(&mut &wire[..]).unwrap();
        client.process_new_packets()?;
    }
    assert!(!server.is_handshaking());
    Ok(server.peer_certificates().unwrap()[0].to_vec())
}

#[test]
fn a_version_1_client_certificate_proves_its_key_in_tls_1_2_and_1_3() {
    let ca = ca();
    let (client, other) =
        (ca.issue_client_cert("alice", "team").unwrap(), ca.issue_client_cert("bob", "team").unwrap());
    let leaf = as_version1(&client, &KeyPair::from_pem(&ca.pair().key).unwrap());
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let seen = handshake(&ca, leaf.clone(), &client.key, version).unwrap();
        assert_eq!(seen, leaf.to_vec(), "{version:?}");
        let stolen = handshake(&ca, leaf.clone(), &other.key, version);
        assert!(stolen.is_err(), "{version:?}: a certificate without its key");
    }
}
