//! A certificate authority (CA) and the certificates that it issues.
//!
//! # Invariants
//!
//! - `notBefore` lies in the past, so that clients with a slow clock accept a new certificate.

use std::sync::Arc;
use std::time::Duration;

use muster_api::environment::Clock;
use muster_api::time::Time;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::identity::IdentityError;
use super::sec1;

const YEARS_VALID: i32 = 10;
/// The maximum of `notAfter`: the last second of the year 9999.
const LAST_SECOND: u64 = 253_402_300_799;

/// The validity period of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    pub from: Time,
    pub until: Time,
}

impl Validity {
    /// From the start of last year, for [`YEARS_VALID`] years.
    fn years(clock: &dyn Clock) -> Validity {
        let year = year_of(clock);
        let first = |year: i32| Time::parse(&format!("{year:04}-01-01T00:00:00Z")).unwrap_or_default();
        Validity { from: first(year - 1), until: first(year + YEARS_VALID) }
    }

    #[must_use]
    pub fn at(&self, now: Time) -> bool {
        (self.from..=self.until).contains(&now)
    }
}

/// A certificate with its private key, both PEM; for a server, the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertKeyPair {
    pub certificate: String,
    pub key: String,
}

pub struct CertificateAuthority {
    certificate: String,
    key: String,
    /// The validity of issued certificates, unless the caller passes another.
    valid: Validity,
}

impl CertificateAuthority {
    /// Generates a CA with the default validity.
    ///
    /// # Errors
    /// Key generation failed.
    pub fn generate_default(name: &str, clock: &dyn Clock) -> Result<CertificateAuthority, IdentityError> {
        CertificateAuthority::generate(name, Validity::years(clock))
    }

    /// Generates a CA with this validity.
    ///
    /// # Errors
    /// Key generation failed.
    pub fn generate(name: &str, valid: Validity) -> Result<CertificateAuthority, IdentityError> {
        let key = KeyPair::generate()?.serialize_pem();
        let certificate = certificate_for(name, &key, valid)?;
        Ok(CertificateAuthority { certificate, key, valid })
    }

    /// Loads a stored CA; `valid` is the validity of the certificates that it issues.
    #[must_use]
    pub fn from_pair(kept: &CertKeyPair, valid: Validity) -> CertificateAuthority {
        CertificateAuthority { certificate: kept.certificate.clone(), key: kept.key.clone(), valid }
    }

    /// Loads a CA; issued certificates have the default validity.
    #[must_use]
    pub fn from_pem(certificate: String, key: String, clock: &dyn Clock) -> CertificateAuthority {
        CertificateAuthority { certificate, key, valid: Validity::years(clock) }
    }

    /// Self-signs a CA certificate (PEM) for an existing key.
    ///
    /// # Errors
    /// The key cannot be parsed.
    pub fn self_sign(name: &str, key: &str, clock: &dyn Clock) -> Result<String, IdentityError> {
        certificate_for(name, key, Validity::years(clock))
    }

    /// The CA certificate, PEM.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The CA certificate and key, to be stored.
    #[must_use]
    pub fn pair(&self) -> CertKeyPair {
        CertKeyPair { certificate: self.certificate.clone(), key: self.key.clone() }
    }

    /// The CA certificate, DER.
    ///
    /// # Errors
    /// The stored PEM is damaged.
    pub fn der(&self) -> Result<CertificateDer<'static>, IdentityError> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes())
            .map_err(|_| IdentityError::Damaged("CA certificate"))
    }

    /// Issues a client certificate. The key is SEC 1 PEM (`EC PRIVATE KEY`): fabric8's Java client takes any other
    /// form for RSA.
    ///
    /// # Errors
    /// Signing failed.
    pub fn issue_client_cert(&self, user: &str, group: &str) -> Result<CertKeyPair, IdentityError> {
        let mut params = params(Vec::new(), user, self.valid)?;
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer()?)?.pem();
        Ok(CertKeyPair { certificate, key: sec1::pem(&key)? })
    }

    /// A TLS server configuration with a certificate for these names; `clients` verifies client certificates, `None`
    /// requests none.
    ///
    /// # Errors
    /// Signing failed.
    pub fn server_config(
        &self,
        called: &str,
        names: Vec<String>,
        clients: Option<Arc<dyn ClientCertVerifier>>,
    ) -> Result<rustls::ServerConfig, IdentityError> {
        let (certificate, key) = self.server(called, names, self.valid)?;
        let chain = vec![certificate.der().clone(), self.der()?];
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
        config.alpn_protocols = protocols();
        Ok(config)
    }

    /// Issues a serving certificate with these subject alternative names.
    ///
    /// # Errors
    /// Signing failed.
    pub fn issue_server_cert(
        &self,
        called: &str,
        names: Vec<String>,
        valid: Validity,
    ) -> Result<CertKeyPair, IdentityError> {
        let (certificate, key) = self.server(called, names, valid)?;
        Ok(CertKeyPair { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    fn server(
        &self,
        called: &str,
        names: Vec<String>,
        valid: Validity,
    ) -> Result<(Certificate, KeyPair), IdentityError> {
        let mut params = params(names, called, valid)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        Ok((params.signed_by(&key, &self.issuer()?)?, key))
    }

    fn issuer(&self) -> Result<Issuer<'static, KeyPair>, IdentityError> {
        Ok(Issuer::from_ca_cert_pem(&self.certificate, KeyPair::from_pem(&self.key)?)?)
    }
}

fn certificate_for(name: &str, key: &str, valid: Validity) -> Result<String, IdentityError> {
    let mut params = dated(Vec::new(), valid)?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    Ok(params.self_signed(&KeyPair::from_pem(key)?)?.pem())
}

fn params(names: Vec<String>, called: &str, valid: Validity) -> Result<CertificateParams, IdentityError> {
    let mut params = dated(names, valid)?;
    params.distinguished_name.push(DnType::CommonName, called);
    // Verifiers distinguish CAs of the same name by it, after a rotation.
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    Ok(params)
}

pub(super) fn protocols() -> Vec<Vec<u8>> {
    vec![b"h2".to_vec(), b"http/1.1".to_vec()]
}

pub(super) fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn dated(names: Vec<String>, valid: Validity) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    let moment = |time: Time| date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds(time));
    params.not_before = moment(valid.from);
    params.not_after = moment(valid.until);
    Ok(params)
}

fn seconds(time: Time) -> u64 {
    u64::try_from(time.0 / 1_000_000).unwrap_or_default().min(LAST_SECOND)
}

fn year_of(clock: &dyn Clock) -> i32 {
    clock.now().to_seconds_text().get(..4).and_then(|y| y.parse().ok()).unwrap_or(1970)
}
