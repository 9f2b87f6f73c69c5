//! The server's keys: its CA, the admin token and the key that signs ServiceAccount tokens.
//!
//! # Invariants
//!
//! - Keys belong to the data directory: a restart keeps them, a wiped directory gets new ones, so that clients of the
//!   previous cluster cannot attach with stale resourceVersions.
//! - Private keys leave this module only for TLS and for the admin kubeconfig.

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use muster_api::environment::{Clock, Entropy};
use muster_store::Store;
use rcgen::KeyPair;

pub use super::certificate_authority::CertKeyPair;
use super::certificate_authority::CertificateAuthority;
use super::client_verifier::ClientVerifier;

/// The user name of the admin credentials.
pub const ADMIN_USER: &str = "muster-admin";
/// The user name that kubelets see, as with kube-apiserver.
const NODE_CLIENT: &str = "kube-apiserver-kubelet-client";
pub const MASTERS: &str = "system:masters";
/// The ClusterIP of the `kubernetes` Service.
pub const FIRST_SERVICE_IP: &str = "10.96.0.1";
/// Subject alternative names of every serving certificate.
pub const SERVING_NAMES: [&str; 7] = [
    "127.0.0.1",
    "::1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    FIRST_SERVICE_IP,
];

const TOKEN_BYTES: usize = 32;

/// The server's keys could not be loaded or generated.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("certificate of the server: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error("TLS of the server: {0}")]
    Tls(String),
    #[error("keeping the server's keys: {0}")]
    Store(#[from] muster_store::WriteError),
    /// A stored key cannot be parsed.
    #[error("the data directory holds no usable {0}: it is damaged")]
    Damaged(&'static str),
}

pub struct ServerIdentity {
    authority: CertificateAuthority,
    admin_token: String,
    token_key: Vec<u8>,
}

impl ServerIdentity {
    /// Loads the keys from the store, or generates and stores them.
    ///
    /// # Errors
    /// Generating or storing a key failed.
    pub fn load_or_generate(
        store: &Store,
        clock: &dyn Clock,
        entropy: &dyn Entropy,
    ) -> Result<Self, IdentityError> {
        let ca_key = kept(store, "tls/ca.key", || Ok(KeyPair::generate()?.serialize_pem()))?;
        // The key is stored before the certificate: after a crash in between, the certificate is signed again with the
        // same key.
        let made = || CertificateAuthority::self_sign("muster-ca", &ca_key, clock);
        let authority = CertificateAuthority::from_pem(kept(store, "tls/ca.crt", made)?, ca_key, clock);
        let admin_token = kept(store, "auth/admin.token", || Ok(random_token(entropy)))?;
        let token_key = kept(store, "auth/service-account.key", || Ok(KeyPair::generate()?.serialize_pem()))?;
        let token_key = KeyPair::from_pem(&token_key)?.serialize_der();
        Ok(Self { authority, admin_token, token_key })
    }

    /// The CA certificate, PEM.
    #[must_use]
    pub fn ca_certificate(&self) -> &str {
        self.authority.certificate()
    }

    #[must_use]
    pub fn admin_token(&self) -> &str {
        &self.admin_token
    }

    /// The ServiceAccount signing key, PKCS #8.
    #[must_use]
    pub fn token_key(&self) -> &[u8] {
        &self.token_key
    }

    /// Issues the admin's client certificate.
    ///
    /// # Errors
    /// Signing failed.
    pub fn admin_certificate(&self) -> Result<CertKeyPair, IdentityError> {
        self.authority.issue_client_cert(ADMIN_USER, MASTERS)
    }

    /// Issues the client certificate that the server shows to kubelets.
    ///
    /// # Errors
    /// Signing failed.
    pub fn node_client_certificate(&self) -> Result<CertKeyPair, IdentityError> {
        self.authority.issue_client_cert(NODE_CLIENT, MASTERS)
    }

    /// The TLS server configuration: a serving certificate for [`SERVING_NAMES`] and `also`; client certificates are
    /// optional and verified against the CA.
    ///
    /// # Errors
    /// Signing failed.
    pub fn tls(&self, also: Option<IpAddr>) -> Result<rustls::ServerConfig, IdentityError> {
        let mut names: Vec<String> = SERVING_NAMES.iter().map(ToString::to_string).collect();
        names.extend(also.map(|ip| ip.to_string()).filter(|ip| !SERVING_NAMES.contains(&ip.as_str())));
        let clients = Arc::new(ClientVerifier::new(self.authority.der()?)?);
        self.authority.server_config("muster-apiserver", names, Some(clients))
    }
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
