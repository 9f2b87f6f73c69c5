//! A certificate authority of ours, and what it certifies.
//!
//! # Invariants
//!
//! - Certificates are valid from the year before, so that a client whose clock is behind does not refuse them.

use std::sync::Arc;

use muster_api::ports::Clock;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::identity::IdentityError;

const YEARS_VALID: i32 = 10;

/// A certificate with its private key, both PEM.
#[derive(Debug, Clone)]
pub struct Certified {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

/// An authority with its key.
pub struct Authority {
    certificate: String,
    key: String,
    year: i32,
}

impl Authority {
    /// A new one that nobody keeps.
    ///
    /// # Errors
    /// When keys cannot be made.
    pub fn passing(name: &str, clock: &dyn Clock) -> Result<Authority, IdentityError> {
        let key = KeyPair::generate()?.serialize_pem();
        let certificate = Authority::certificate_for(name, &key, clock)?;
        Ok(Authority::of(certificate, key, clock))
    }

    /// One that was made before, both PEM.
    #[must_use]
    pub fn of(certificate: String, key: String, clock: &dyn Clock) -> Authority {
        Authority { certificate, key, year: year_of(clock) }
    }

    /// The certificate of an authority with this key, PEM.
    ///
    /// # Errors
    /// The key cannot be read.
    pub fn certificate_for(name: &str, key: &str, clock: &dyn Clock) -> Result<String, IdentityError> {
        let mut params = dated(Vec::new(), year_of(clock))?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        Ok(params.self_signed(&KeyPair::from_pem(key)?)?.pem())
    }

    /// Its certificate, PEM.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Its certificate, DER.
    ///
    /// # Errors
    /// It is none.
    pub fn der(&self) -> Result<CertificateDer<'static>, IdentityError> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes())
            .map_err(|_| IdentityError::Damaged("CA certificate"))
    }

    /// A client certificate for a user in a group.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn client(&self, user: &str, group: &str) -> Result<Certified, IdentityError> {
        let mut params = self.params(Vec::new(), user)?;
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer()?)?.pem();
        Ok(Certified { certificate, key: key.serialize_pem() })
    }

    /// The TLS side of a server with these names and addresses; `clients` looks at what clients show, nobody does if
    /// there is none.
    ///
    /// # Errors
    /// When the certificate cannot be made.
    pub fn serving(
        &self,
        called: &str,
        names: Vec<String>,
        clients: Option<Arc<dyn ClientCertVerifier>>,
    ) -> Result<rustls::ServerConfig, IdentityError> {
        let mut params = self.params(names, called)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let chain = vec![params.signed_by(&key, &self.issuer()?)?.der().clone(), self.der()?];
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let wrong = |e: rustls::Error| IdentityError::Tls(e.to_string());
        let builder = rustls::ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(wrong)?;
        let builder = match clients {
            Some(clients) => builder.with_client_cert_verifier(clients),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(wrong)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    fn issuer(&self) -> Result<Issuer<'static, KeyPair>, IdentityError> {
        Ok(Issuer::from_ca_cert_pem(&self.certificate, KeyPair::from_pem(&self.key)?)?)
    }

    fn params(&self, names: Vec<String>, called: &str) -> Result<CertificateParams, IdentityError> {
        let mut params = dated(names, self.year)?;
        params.distinguished_name.push(DnType::CommonName, called);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        Ok(params)
    }
}

/// What does the arithmetic of TLS.
pub(super) fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn dated(names: Vec<String>, year: i32) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.not_before = date_time_ymd(year - 1, 1, 1);
    params.not_after = date_time_ymd(year + YEARS_VALID, 1, 1);
    Ok(params)
}

fn year_of(clock: &dyn Clock) -> i32 {
    clock.now().to_seconds_text().get(..4).and_then(|y| y.parse().ok()).unwrap_or(1970)
}
