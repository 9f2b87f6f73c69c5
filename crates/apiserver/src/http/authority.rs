//! A certificate authority of ours, and what it certifies.
//!
//! # Invariants
//!
//! - Certificates are valid from some time before they were made, so that a client whose clock is behind does not
//!   refuse them.

use std::sync::Arc;
use std::time::Duration;

use muster_api::ports::Clock;
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
/// The last second that a certificate can name: that of the year 9999.
const LAST_SECOND: u64 = 253_402_300_799;

/// When a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Valid {
    /// The first moment.
    pub from: Time,
    /// The last.
    pub until: Time,
}

impl Valid {
    /// From the year before the present one, for ten years.
    fn years(clock: &dyn Clock) -> Valid {
        let year = year_of(clock);
        let first = |year: i32| Time::parse(&format!("{year:04}-01-01T00:00:00Z")).unwrap_or_default();
        Valid { from: first(year - 1), until: first(year + YEARS_VALID) }
    }

    /// Whether it is valid at this moment.
    #[must_use]
    pub fn at(&self, now: Time) -> bool {
        (self.from..=self.until).contains(&now)
    }
}

/// A certificate with its private key, both PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// When what it certifies is valid, unless told otherwise.
    valid: Valid,
}

impl Authority {
    /// A new one that nobody keeps.
    ///
    /// # Errors
    /// When keys cannot be made.
    pub fn passing(name: &str, clock: &dyn Clock) -> Result<Authority, IdentityError> {
        Authority::lasting(name, Valid::years(clock))
    }

    /// A new one that is valid for this time.
    ///
    /// # Errors
    /// When keys cannot be made.
    pub fn lasting(name: &str, valid: Valid) -> Result<Authority, IdentityError> {
        let key = KeyPair::generate()?.serialize_pem();
        let certificate = certificate_for(name, &key, valid)?;
        Ok(Authority { certificate, key, valid })
    }

    /// One that was kept; what it certifies is valid for this time.
    #[must_use]
    pub fn again(kept: &Certified, valid: Valid) -> Authority {
        Authority { certificate: kept.certificate.clone(), key: kept.key.clone(), valid }
    }

    /// One that was made before, both PEM.
    #[must_use]
    pub fn of(certificate: String, key: String, clock: &dyn Clock) -> Authority {
        Authority { certificate, key, valid: Valid::years(clock) }
    }

    /// The certificate of an authority with this key, PEM.
    ///
    /// # Errors
    /// The key cannot be read.
    pub fn certificate_for(name: &str, key: &str, clock: &dyn Clock) -> Result<String, IdentityError> {
        certificate_for(name, key, Valid::years(clock))
    }

    /// Its certificate, PEM.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Its certificate and its key.
    #[must_use]
    pub fn kept(&self) -> Certified {
        Certified { certificate: self.certificate.clone(), key: self.key.clone() }
    }

    /// Its certificate, DER.
    ///
    /// # Errors
    /// It is none.
    pub fn der(&self) -> Result<CertificateDer<'static>, IdentityError> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes())
            .map_err(|_| IdentityError::Damaged("CA certificate"))
    }

    /// A client certificate for a user in a group. Its key is in the form of SEC 1, which says in its first line that
    /// it is one of an elliptic curve: fabric8's client for Java takes any other form for RSA.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn client(&self, user: &str, group: &str) -> Result<Certified, IdentityError> {
        let mut params = params(Vec::new(), user, self.valid)?;
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer()?)?.pem();
        Ok(Certified { certificate, key: sec1::pem(&key)? })
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

    /// A certificate of a server with these names, valid for this time.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn certify(
        &self,
        called: &str,
        names: Vec<String>,
        valid: Valid,
    ) -> Result<Certified, IdentityError> {
        let (certificate, key) = self.server(called, names, valid)?;
        Ok(Certified { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    fn server(
        &self,
        called: &str,
        names: Vec<String>,
        valid: Valid,
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

fn certificate_for(name: &str, key: &str, valid: Valid) -> Result<String, IdentityError> {
    let mut params = dated(Vec::new(), valid)?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    Ok(params.self_signed(&KeyPair::from_pem(key)?)?.pem())
}

fn params(names: Vec<String>, called: &str, valid: Valid) -> Result<CertificateParams, IdentityError> {
    let mut params = dated(names, valid)?;
    params.distinguished_name.push(DnType::CommonName, called);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    Ok(params)
}

/// What is spoken over TLS.
pub(super) fn protocols() -> Vec<Vec<u8>> {
    vec![b"h2".to_vec(), b"http/1.1".to_vec()]
}

/// What does the arithmetic of TLS.
pub(super) fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn dated(names: Vec<String>, valid: Valid) -> Result<CertificateParams, rcgen::Error> {
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
