//! The serving certificate, which can be replaced while the server runs (kube-apiserver's dynamic serving content).
//!
//! # Invariants
//!
//! - Open connections keep their session; new handshakes get the current certificate.
//! - Without a certificate handshakes fail.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{
    CipherSuite, DigitallySignedStruct, DistinguishedName, SignatureScheme, SupportedCipherSuite,
    SupportedProtocolVersion,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};

use super::certificate_authority::{CertKeyPair, protocols, provider};
use super::identity::IdentityError;

/// Cipher suites that Go servers know and this one does not offer: they lack forward secrecy or authenticated
/// encryption.
const NOT_OFFERED: [&str; 13] = [
    "TLS_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
];

/// An invalid `tls` block of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsOptionsError {
    #[error("tls.minVersion: {0:?} is not supported: use VersionTLS12 or VersionTLS13")]
    Version(String),
    /// Cipher suites of TLS 1.3 are not configurable.
    #[error("tls.cipherSuites: may not be specified when `minVersion` is 'VersionTLS13'")]
    Suites,
    #[error("tls.cipherSuites: {0:?} is unknown: use {known}", known = offered().join(", "))]
    Suite(String),
    /// Every requested suite is one that this server does not offer.
    #[error("tls.cipherSuites: none of these is offered: use {}", offered().join(", "))]
    None,
}

/// The minimum TLS version, and the cipher suites of TLS 1.2; empty means all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsOptions {
    newest_only: bool,
    suites: Vec<CipherSuite>,
    left_out: Vec<String>,
}

impl TlsOptions {
    /// Parses the `tls` block of a configuration file: `VersionTLS12` (the default) or `VersionTLS13`, and cipher
    /// suite names; none means all.
    ///
    /// # Errors
    /// An unknown version or suite.
    pub fn parse(min_version: &str, suites: &[String]) -> Result<TlsOptions, TlsOptionsError> {
        let newest_only = match min_version {
            "" | "VersionTLS12" => false,
            "VersionTLS13" => true,
            other => return Err(TlsOptionsError::Version(other.to_owned())),
        };
        if newest_only && !suites.is_empty() {
            return Err(TlsOptionsError::Suites);
        }
        let mut tls = TlsOptions { newest_only, ..TlsOptions::default() };
        for name in suites {
            match provider()
                .cipher_suites
                .iter()
                .map(SupportedCipherSuite::suite)
                .find(|it| named(*it) == *name)
            {
                Some(suite) => tls.suites.push(suite),
                None if NOT_OFFERED.contains(&name.as_str()) => tls.left_out.push(name.clone()),
                None => return Err(TlsOptionsError::Suite(name.clone())),
            }
        }
        // An empty list would mean all suites: the opposite of a request for only unsupported ones.
        if tls.suites.is_empty() && !tls.left_out.is_empty() {
            return Err(TlsOptionsError::None);
        }
        Ok(tls)
    }

    /// Requested suites that are not offered; the caller logs them.
    #[must_use]
    pub fn ignored_suites(&self) -> &[String] {
        &self.left_out
    }

    fn versions(&self) -> Vec<&'static SupportedProtocolVersion> {
        if self.newest_only { vec![&TLS13] } else { vec![&TLS13, &TLS12] }
    }

    fn provider(&self) -> rustls::crypto::CryptoProvider {
        let mut provider = rustls::crypto::ring::default_provider();
        if !self.suites.is_empty() {
            // TLS 1.3 suites are always enabled, as in Go servers.
            provider.cipher_suites.retain(|it| it.tls13().is_some() || self.suites.contains(&it.suite()));
        }
        provider
    }
}

/// The IANA name of a suite, as configuration files spell it.
fn named(suite: CipherSuite) -> String {
    suite.as_str().unwrap_or_default().replace("TLS13_", "TLS_")
}

/// The TLS 1.2 suites that can be configured.
fn offered() -> Vec<String> {
    let all = rustls::crypto::ring::default_provider().cipher_suites;
    all.iter().filter(|it| it.tls13().is_none()).map(|it| named(it.suite())).collect()
}

/// Resolves the serving certificate of each handshake.
#[derive(Debug, Default)]
pub struct ServingCertResolver(RwLock<Option<Arc<CertifiedKey>>>);

impl ServingCertResolver {
    /// Replaces the certificate for new handshakes.
    ///
    /// # Errors
    /// The certificate or key cannot be parsed, or they do not match.
    pub fn set(&self, certified: &CertKeyPair) -> Result<(), IdentityError> {
        let chain: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(certified.certificate.as_bytes()).collect();
        let chain = chain.map_err(|_| IdentityError::Damaged("certificate"))?;
        let key = PrivateKeyDer::from_pem_slice(certified.key.as_bytes())
            .map_err(|_| IdentityError::Damaged("key of a certificate"))?;
        let wrong = |e: rustls::Error| IdentityError::Tls(e.to_string());
        let held = CertifiedKey::from_der(chain, key, &provider()).map_err(wrong)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(held));
        Ok(())
    }

    /// The TLS configuration of a server. Client certificates are requested but not required, and not verified
    /// against a CA: the request handler decides whether to trust them.
    ///
    /// # Errors
    /// The versions and suites do not fit together.
    pub fn config(self: &Arc<Self>, tls: &TlsOptions) -> Result<rustls::ServerConfig, IdentityError> {
        let wrong = |e: rustls::Error| IdentityError::Tls(e.to_string());
        let provider = Arc::new(tls.provider());
        let clients = Arc::new(AcceptAnyClientCert(provider.clone()));
        let builder = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&tls.versions())
            .map_err(wrong)?;
        let mut config = builder.with_client_cert_verifier(clients).with_cert_resolver(self.clone());
        config.alpn_protocols = protocols();
        Ok(config)
    }
}

/// Accepts any client certificate or none, but verifies the handshake signature. The trusted CA may change while the
/// server runs, so the handler verifies the chain with every request.
#[derive(Debug)]
struct AcceptAnyClientCert(Arc<CryptoProvider>);

impl ClientCertVerifier for AcceptAnyClientCert {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

impl ResolvesServerCert for ServingCertResolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests;
