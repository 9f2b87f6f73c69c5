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
use rcgen::KeyPair;
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;

pub use super::authority::Certified;
use super::authority::{self, Authority};

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
    authority: Authority,
    admin_token: String,
    token_key: Vec<u8>,
}

impl Identity {
    /// The identity the store holds; made and kept there when it has none.
    ///
    /// # Errors
    /// When keys cannot be made or kept.
    pub fn of_store(store: &Store, clock: &dyn Clock, entropy: &dyn Entropy) -> Result<Self, IdentityError> {
        let ca_key = kept(store, "tls/ca.key", || Ok(KeyPair::generate()?.serialize_pem()))?;
        let made = || Authority::certificate_for("muster-ca", &ca_key, clock);
        let authority = Authority::of(kept(store, "tls/ca.crt", made)?, ca_key, clock);
        let admin_token = kept(store, "auth/admin.token", || Ok(random_token(entropy)))?;
        let token_key = kept(store, "auth/service-account.key", || Ok(KeyPair::generate()?.serialize_pem()))?;
        let token_key = KeyPair::from_pem(&token_key)?.serialize_der();
        Ok(Self { authority, admin_token, token_key })
    }

    /// The certificate of the authority, PEM.
    #[must_use]
    pub fn authority(&self) -> &str {
        self.authority.certificate()
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
        self.authority.client(ADMIN_USER, MASTERS)
    }

    /// The client certificate that the server itself shows to nodes.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn node_client_certificate(&self) -> Result<Certified, IdentityError> {
        self.authority.client(NODE_CLIENT, MASTERS)
    }

    /// The TLS side of the server: a serving certificate for the usual names and `also`, and clients verified
    /// against the authority when they show a certificate.
    ///
    /// # Errors
    /// When certificates cannot be made.
    pub fn tls(&self, also: Option<IpAddr>) -> Result<rustls::ServerConfig, IdentityError> {
        let mut names: Vec<String> = SERVING_NAMES.iter().map(ToString::to_string).collect();
        names.extend(also.map(|ip| ip.to_string()).filter(|ip| !SERVING_NAMES.contains(&ip.as_str())));
        let wrong = |e: &dyn std::fmt::Display| IdentityError::Tls(e.to_string());
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der()?).map_err(|e| wrong(&e))?;
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), authority::provider())
            .allow_unauthenticated()
            .build()
            .map_err(|e| wrong(&e))?;
        self.authority.serving("muster-apiserver", names, Some(clients))
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
