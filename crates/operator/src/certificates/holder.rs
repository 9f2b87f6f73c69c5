//! What every replica does: it shows the certificate that the Secret holds.
//!
//! # Invariants
//!
//! - What cannot be used is not taken: the one before is shown until there is a better one, also when the Secret is gone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_api::kinds;
use muster_api::ports::Clock;
use muster_apiserver::http::serving::Serving;
use muster_cluster::KubeApi;
use tokio::sync::watch;

use super::Service;
use super::followed::Followed;
use super::kept::{Found, Kept};
use crate::ports::SystemClock;

/// What a replica holds.
#[derive(Default)]
pub struct Holder {
    serving: Arc<Serving>,
    kept: Mutex<Option<Kept>>,
    trusted: watch::Sender<String>,
}

impl Holder {
    /// What is shown to whoever connects.
    pub fn serving(&self) -> &Arc<Serving> {
        &self.serving
    }

    /// The last good contents of the Secret.
    pub fn kept(&self) -> Option<Kept> {
        self.lock().clone()
    }

    /// The authorities to trust, PEM, now and whenever they are others; empty while there is no certificate. One that will
    /// certify is among them before it does.
    pub fn trusted(&self) -> watch::Receiver<String> {
        self.trusted.subscribe()
    }

    /// Whether there is a certificate that is valid now.
    pub fn is_ready(&self, service: &Service) -> bool {
        let held = self.lock();
        let valid = held.as_ref().and_then(|it| it.picture(&service.names()).serving);
        valid.is_some_and(|valid| valid.at(SystemClock.now()))
    }

    /// Follows the Secret for ever; `told` hears after every change whether there is a certificate.
    pub async fn follow(&self, api: &KubeApi, service: &Service, secret: &str, told: impl Fn(bool)) {
        let mut followed = Followed::start(api, &kinds::SECRETS, &service.namespace, secret);
        loop {
            followed.hear().await;
            if let Found::Ours(kept) = Found::of(followed.tree()) {
                self.take(kept, service);
            }
            told(self.is_ready(service));
        }
    }

    fn take(&self, kept: Kept, service: &Service) {
        let names = service.names();
        let Some(shown) = kept.shown(&names) else {
            return tracing::debug!("the Secret holds no certificate that can be shown");
        };
        if let Err(error) = self.serving.hold(shown) {
            return tracing::warn!(%error, "the certificate in the Secret cannot be shown");
        }
        tracing::info!(valid = ?kept.picture(&names).serving, "a certificate is shown");
        let bundle = kept.bundle();
        *self.lock() = Some(kept);
        self.trusted.send_if_modified(|trusted| {
            let is_other = *trusted != bundle;
            *trusted = bundle;
            is_other
        });
    }

    fn lock(&self) -> MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
