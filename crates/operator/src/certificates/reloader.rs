//! Reloads the serving certificate from the Secret, on every replica.
//!
//! # Guarantees
//!
//! - An unusable Secret changes nothing: the last good certificate is served, also after the Secret was deleted.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_api::environment::Clock;
use muster_api::kinds;
use muster_apiserver::http::serving_cert::ServingCertResolver;
use muster_cluster::KubeApi;
use tokio::sync::watch;

use super::ServiceRef;
use super::secret::{CertificateSecret, CertificateSet};
use super::watched::WatchedObject;
use crate::ports::SystemClock;

/// The certificate in use, and the CA bundle that verifies it.
#[derive(Default)]
pub struct CertReloader {
    resolver: Arc<ServingCertResolver>,
    current: Mutex<Option<CertificateSet>>,
    ca_bundle: watch::Sender<String>,
}

impl CertReloader {
    /// Resolves the certificate of a TLS handshake.
    pub fn resolver(&self) -> &Arc<ServingCertResolver> {
        &self.resolver
    }

    /// The last good contents of the Secret.
    pub fn current(&self) -> Option<CertificateSet> {
        self.lock().clone()
    }

    /// The CA bundle (PEM) and its changes; empty while there is no certificate. A next CA is in it before it signs.
    pub fn ca_bundle(&self) -> watch::Receiver<String> {
        self.ca_bundle.subscribe()
    }

    /// Whether there is a certificate that is valid now.
    pub fn is_ready(&self, service: &ServiceRef) -> bool {
        let held = self.lock();
        let valid = held.as_ref().and_then(|it| it.snapshot(&service.names()).serving);
        valid.is_some_and(|valid| valid.at(SystemClock.now()))
    }

    /// Watches the Secret until it is cancelled; reports after every change whether there is a valid certificate.
    pub async fn run(&self, api: &KubeApi, service: &ServiceRef, secret: &str, told: impl Fn(bool)) {
        let mut followed = WatchedObject::start(api, &kinds::SECRETS, &service.namespace, secret);
        loop {
            followed.wait_for_change().await;
            if let CertificateSecret::Owned(kept) = CertificateSecret::of(followed.tree()) {
                self.load(kept, service);
            }
            told(self.is_ready(service));
        }
    }

    fn load(&self, kept: CertificateSet, service: &ServiceRef) {
        let names = service.names();
        let Some(shown) = kept.serving_pair(&names) else {
            return tracing::debug!("the Secret holds no usable serving certificate");
        };
        if let Err(error) = self.resolver.set(shown) {
            return tracing::warn!(%error, "cannot load the serving certificate from the Secret");
        }
        tracing::info!(valid = ?kept.snapshot(&names).serving, "serving certificate loaded");
        let bundle = kept.ca_bundle();
        *self.lock() = Some(kept);
        self.ca_bundle.send_if_modified(|trusted| {
            let is_other = *trusted != bundle;
            *trusted = bundle;
            is_other
        });
    }

    fn lock(&self) -> MutexGuard<'_, Option<CertificateSet>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
