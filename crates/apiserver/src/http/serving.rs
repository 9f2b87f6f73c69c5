//! A certificate that a server shows, and may change while it serves.
//!
//! # Invariants
//!
//! - Connections that are there go on with what they were made with; new ones get what is held now.
//! - Whoever holds none refuses handshakes.

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

use super::authority::{Certified, protocols, provider};
use super::identity::IdentityError;

/// Suites that other servers know and this one does not offer: they lack forward secrecy or authenticated encryption.
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

/// Why a server cannot speak TLS as it was told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// The oldest version.
    #[error("tls.minVersion: {0:?} is not supported: use VersionTLS12 or VersionTLS13")]
    Version(String),
    /// The suites of TLS 1.3 are not for choice.
    #[error("tls.cipherSuites: may not be specified when `minVersion` is 'VersionTLS13'")]
    Suites,
    /// A suite.
    #[error("tls.cipherSuites: {0:?} is unknown: use {known}", known = offered().join(", "))]
    Suite(String),
    /// None is left.
    #[error("tls.cipherSuites: none of these is offered: use {}", offered().join(", "))]
    None,
}

/// How TLS is spoken: from this version on, in 1.2 with these suites alone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    newest_only: bool,
    suites: Vec<CipherSuite>,
    left_out: Vec<String>,
}

impl Tls {
    /// As the `tls` block of a configuration file says: `VersionTLS12` (also when it says nothing) or `VersionTLS13`,
    /// and the names of suites, all if there are none.
    ///
    /// # Errors
    /// A version or suite that is not to be had.
    pub fn parse(min_version: &str, suites: &[String]) -> Result<Tls, TlsError> {
        let newest_only = match min_version {
            "" | "VersionTLS12" => false,
            "VersionTLS13" => true,
            other => return Err(TlsError::Version(other.to_owned())),
        };
        if newest_only && !suites.is_empty() {
            return Err(TlsError::Suites);
        }
        let mut tls = Tls { newest_only, ..Tls::default() };
        for name in suites {
            match provider()
                .cipher_suites
                .iter()
                .map(SupportedCipherSuite::suite)
                .find(|it| named(*it) == *name)
            {
                Some(suite) => tls.suites.push(suite),
                None if NOT_OFFERED.contains(&name.as_str()) => tls.left_out.push(name.clone()),
                None => return Err(TlsError::Suite(name.clone())),
            }
        }
        if tls.suites.is_empty() && !tls.left_out.is_empty() {
            return Err(TlsError::None);
        }
        Ok(tls)
    }

    /// Suites that were asked for and are not offered, for a word on the log.
    #[must_use]
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    fn versions(&self) -> Vec<&'static SupportedProtocolVersion> {
        if self.newest_only { vec![&TLS13] } else { vec![&TLS13, &TLS12] }
    }

    fn provider(&self) -> rustls::crypto::CryptoProvider {
        let mut provider = rustls::crypto::ring::default_provider();
        if !self.suites.is_empty() {
            // Those of TLS 1.3 are always there, as in every server.
            provider.cipher_suites.retain(|it| it.tls13().is_some() || self.suites.contains(&it.suite()));
        }
        provider
    }
}

/// A suite as configuration files call it.
fn named(suite: CipherSuite) -> String {
    suite.as_str().unwrap_or_default().replace("TLS13_", "TLS_")
}

/// The suites of TLS 1.2 that there are.
fn offered() -> Vec<String> {
    let all = rustls::crypto::ring::default_provider().cipher_suites;
    all.iter().filter(|it| it.tls13().is_none()).map(|it| named(it.suite())).collect()
}

/// A certificate that is shown to whoever connects.
#[derive(Debug, Default)]
pub struct Serving(RwLock<Option<Arc<CertifiedKey>>>);

impl Serving {
    /// Shows this from now on.
    ///
    /// # Errors
    /// It is damaged, or the key is another's.
    pub fn hold(&self, certified: &Certified) -> Result<(), IdentityError> {
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

    /// The TLS side of a server that shows what is held, to anybody. Whoever has a certificate may show it; what that is
    /// worth is for the one who answers to find out.
    ///
    /// # Errors
    /// When TLS cannot be spoken so.
    pub fn config(self: &Arc<Self>, tls: &Tls) -> Result<rustls::ServerConfig, IdentityError> {
        let wrong = |e: rustls::Error| IdentityError::Tls(e.to_string());
        let provider = Arc::new(tls.provider());
        let clients = Arc::new(Anybody(provider.clone()));
        let builder = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&tls.versions())
            .map_err(wrong)?;
        let mut config = builder.with_client_cert_verifier(clients).with_cert_resolver(self.clone());
        config.alpn_protocols = protocols();
        Ok(config)
    }
}

/// Takes any certificate of a client, or none, but only from somebody who has its key: whom to trust may change while a
/// server runs, and is looked at with every request.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ClientCertVerifier for Anybody {
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

impl ResolvesServerCert for Serving {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests;
