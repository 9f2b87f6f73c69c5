//! Who this server is: its certificate authority, its admin token and the key that signs ServiceAccount tokens.
//!
//! # Invariants
//!
//! - All of it belongs to the data directory: a restart keeps it, a wiped directory makes it anew, so that clients
//!   of a previous life cannot attach with old revisions by mistake.
//! - Private keys never leave this module except into TLS and into the kubeconfig of the admin.

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use muster_api::ports::{Clock, Entropy};
use muster_store::Store;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// The user in the admin's certificate.
pub const ADMIN_USER: &str = "muster-admin";
/// The user that calls nodes.
const NODE_CLIENT: &str = "kube-apiserver-kubelet-client";
/// The group that may do everything.
pub const MASTERS: &str = "system:masters";
/// The first address of the service range.
pub const FIRST_SERVICE_IP: &str = "10.96.0.1";
/// Names that every serving certificate carries.
pub const SERVING_NAMES: [&str; 7] = [
    "127.0.0.1",
    "::1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    FIRST_SERVICE_IP,
];

const YEARS_VALID: i32 = 10;
const TOKEN_BYTES: usize = 32;

/// Why the identity could not be read or made.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Certificates.
    #[error("certificate of the server: {0}")]
    Certificate(#[from] rcgen::Error),
    /// TLS.
    #[error("TLS of the server: {0}")]
    Tls(String),
    /// The store did not keep it.
    #[error("keeping the server's keys: {0}")]
    Store(#[from] muster_store::WriteError),
    /// What the store holds is not what was put there.
    #[error("the data directory holds no usable {0}: it is damaged")]
    Damaged(&'static str),
}

/// The server's keys.
pub struct Identity {
    ca_certificate: String,
    ca_key: String,
    admin_token: String,
    token_key: Vec<u8>,
    year: i32,
}

/// A certificate with its private key, both PEM.
#[derive(Debug, Clone)]
pub struct Certified {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

impl Identity {
    /// The identity the store holds; made and kept there when it has none.
    ///
    /// # Errors
    /// When keys cannot be made or kept.
    pub fn of_store(store: &Store, clock: &dyn Clock, entropy: &dyn Entropy) -> Result<Self, IdentityError> {
        let year = year_of(clock);
        let ca_key = kept(store, "tls/ca.key", || Ok(KeyPair::generate()?.serialize_pem()))?;
        let ca_certificate = kept(store, "tls/ca.crt", || make_authority(&ca_key, year))?;
        let admin_token = kept(store, "auth/admin.token", || Ok(random_token(entropy)))?;
        let token_key = kept(store, "auth/service-account.key", || Ok(KeyPair::generate()?.serialize_pem()))?;
        let token_key = KeyPair::from_pem(&token_key)?.serialize_der();
        Ok(Self { ca_certificate, ca_key, admin_token, token_key, year })
    }

    /// The certificate of the authority, PEM.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.ca_certificate
    }

    /// The bearer token of the admin.
    #[must_use]
    pub fn admin_token(&self) -> &str {
        &self.admin_token
    }

    /// The key that signs ServiceAccount tokens, PKCS #8.
    #[must_use]
    pub fn token_key(&self) -> &[u8] {
        &self.token_key
    }

    /// A client certificate for the admin.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn admin_certificate(&self) -> Result<Certified, IdentityError> {
        self.client_certificate(ADMIN_USER)
    }

    /// The client certificate that the server itself shows to nodes.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn node_client_certificate(&self) -> Result<Certified, IdentityError> {
        self.client_certificate(NODE_CLIENT)
    }

    fn client_certificate(&self, user: &str) -> Result<Certified, IdentityError> {
        let mut params = self.params(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, user);
        params.distinguished_name.push(DnType::OrganizationName, MASTERS);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let (certificate, key) = self.sign(&params)?;
        Ok(Certified { certificate, key })
    }

    /// The TLS side of the server: a serving certificate for the usual names and `also`, and clients verified
    /// against the authority when they show a certificate.
    ///
    /// # Errors
    /// When certificates cannot be made.
    pub fn tls(&self, also: Option<IpAddr>) -> Result<rustls::ServerConfig, IdentityError> {
        let mut names: Vec<String> = SERVING_NAMES.iter().map(ToString::to_string).collect();
        names.extend(also.map(|ip| ip.to_string()).filter(|ip| !SERVING_NAMES.contains(&ip.as_str())));
        let mut params = self.params(names)?;
        params.distinguished_name.push(DnType::CommonName, "muster-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer()?)?;
        let chain = vec![certificate.der().clone(), self.authority_der()?];
        self.config(chain, PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der())))
    }

    fn config(
        &self,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<rustls::ServerConfig, IdentityError> {
        let tls = |e: &dyn std::fmt::Display| IdentityError::Tls(e.to_string());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.authority_der()?).map_err(|e| tls(&e))?;
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .allow_unauthenticated()
            .build()
            .map_err(|e| tls(&e))?;
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| tls(&e))?
            .with_client_cert_verifier(clients)
            .with_single_cert(chain, key)
            .map_err(|e| tls(&e))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    fn authority_der(&self) -> Result<CertificateDer<'static>, IdentityError> {
        use rustls_pki_types::pem::PemObject;
        CertificateDer::from_pem_slice(self.ca_certificate.as_bytes())
            .map_err(|_| IdentityError::Damaged("CA certificate"))
    }

    fn issuer(&self) -> Result<Issuer<'static, KeyPair>, IdentityError> {
        Ok(Issuer::from_ca_cert_pem(&self.ca_certificate, KeyPair::from_pem(&self.ca_key)?)?)
    }

    fn sign(&self, params: &CertificateParams) -> Result<(String, String), IdentityError> {
        let key = KeyPair::generate()?;
        Ok((params.signed_by(&key, &self.issuer()?)?.pem(), key.serialize_pem()))
    }

    fn params(&self, names: Vec<String>) -> Result<CertificateParams, IdentityError> {
        let mut params = dated(names, self.year)?;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        Ok(params)
    }
}

fn dated(names: Vec<String>, year: i32) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    // The year before: a client whose clock is behind must not be refused.
    params.not_before = date_time_ymd(year - 1, 1, 1);
    params.not_after = date_time_ymd(year + YEARS_VALID, 1, 1);
    Ok(params)
}

fn make_authority(key: &str, year: i32) -> Result<String, IdentityError> {
    let mut params = dated(Vec::new(), year)?;
    params.distinguished_name.push(DnType::CommonName, "muster-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    Ok(params.self_signed(&KeyPair::from_pem(key)?)?.pem())
}

fn year_of(clock: &dyn Clock) -> i32 {
    clock.now().to_seconds_text().get(..4).and_then(|y| y.parse().ok()).unwrap_or(1970)
}

/// A random bearer token.
#[must_use]
pub fn random_token(entropy: &dyn Entropy) -> String {
    let mut bytes = [0_u8; TOKEN_BYTES];
    entropy.fill(&mut bytes);
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn kept(
    store: &Store,
    name: &'static str,
    make: impl FnOnce() -> Result<String, IdentityError>,
) -> Result<String, IdentityError> {
    if let Some(bytes) = store.meta_get(name) {
        return String::from_utf8(bytes).map_err(|_| IdentityError::Damaged(name));
    }
    let made = make()?;
    store.meta_put(name, made.as_bytes())?;
    Ok(made)
}
