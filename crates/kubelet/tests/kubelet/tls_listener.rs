//! Tests of the TLS listener.

use std::net::TcpListener;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::harness::{World, text};

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

fn authority() -> Authority {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::from_ca_cert_pem(&pem, key).unwrap();
    Authority { pem, issuer }
}

#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::ED25519]
    }
}

/// Requests `/healthz` with a client certificate of this CA, or none.
async fn ask(port: u16, client: Option<(&Authority, &str)>) -> Result<(u16, String), String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody));
    let config = match client {
        None => builder.with_no_client_auth(),
        Some((authority, name)) => {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(vec!["client".to_owned()]).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            let chain = vec![params.signed_by(&key, &authority.issuer).unwrap().der().clone()];
            let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let stream =
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|e| e.to_string())?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| e.to_string())?;
    tokio::spawn(connection);
    let request = Request::get("/healthz").header("host", "n").body(Empty::<Bytes>::new()).unwrap();
    let answer = sender.send_request(request).await.map_err(|e| e.to_string())?;
    Ok(text(answer).await)
}

#[tokio::test]
async fn only_client_certificates_of_the_ca_are_accepted() {
    let world = World::new();
    let (ours, theirs) = (authority(), authority());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let listening = world.kubelet.listen(listener, &ours.pem, "node").unwrap();
    let port = listening.address().port();
    let server = "kube-apiserver-kubelet-client";
    assert_eq!(ask(port, Some((&ours, server))).await, Ok((200, "ok".to_owned())));
    let (code, why) = ask(port, Some((&ours, "system:node:other"))).await.unwrap();
    assert_eq!((code, why.contains("only API servers")), (403, true), "another node");
    assert_eq!(ask(port, None).await, Ok((401, "Unauthorized".to_owned())));
    assert!(ask(port, Some((&theirs, server))).await.is_err(), "signed by somebody else");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(world.kubelet.listen(listener, "", "node").is_err(), "no authority, no door");
}
