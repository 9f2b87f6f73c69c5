//! Rotates the certificates, on the leader: reconciles the Secret, the webhook configurations, the CRDs with conversion
//! webhooks and the APIServices.
//!
//! # Guarantees
//!
//! - Writes carry the resource version that was decided over as a precondition; a concurrent write wins and is reconciled
//!   again.
//! - The CA bundles are patched right after the Secret, and whenever something else changes them.
//! - There is a minimum pause between two rounds: writes of another client cannot drive this into a hot loop.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use muster_api::client::{
    ApiError, ApiRequest, Kind, Preconditions, RequestTarget, RequestVerb, Subresource,
};
use muster_api::environment::Clock;
use muster_api::kinds;
use muster_cluster::KubeApi;
use muster_install::aggregated;
use muster_install::conversion::CONVERTED_CRDS;
use muster_install::webhooks::{AdmissionStep as Whose, CONFIGURATIONS, WebhookConfiguration};
use muster_tree::Tree;
use tokio::time::Instant;

use super::api_services;
use super::crds;
use super::reloader::CertReloader;
use super::rotation_step::{CertificateSnapshot, Elapsed, RotationStep, next_step};
use super::secret::{CertificateSecret, CertificateSet};
use super::watched::WatchedObject;
use super::webhook_configurations;
use super::{CertificateLifetimes, SECRET, ServiceRef};
use crate::ports::SystemClock;
use crate::webhooks::{MANAGER, cluster_request, exact_preconditions};

/// Rotation steps per round: more than a whole rotation has.
const STEPS_MAX: u32 = 4;
/// The longest pause between two rounds.
const ROUND_INTERVAL_MAX: Duration = Duration::from_secs(60);
/// The shortest pause between two rounds.
const ROUND_INTERVAL_MIN: Duration = Duration::from_millis(200);
/// Pause after a failed request.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// Subjects of warnings: a warning is logged once until its text changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum WarningTopic {
    Secret,
    Configurations,
    Server,
}

/// An object that makes the API server call our Service, and so needs its CA bundle.
#[derive(Clone, Copy)]
enum CaBundleTarget {
    Configuration(&'static WebhookConfiguration),
    Crd(&'static str),
    /// An APIService of the visibility API.
    ApiService(&'static str),
}

impl CaBundleTarget {
    /// The objects for these admission steps; those of disabled steps may belong to another controller.
    fn for_steps(steps: &[Whose]) -> Vec<CaBundleTarget> {
        let queues = steps.contains(&Whose::Queues);
        let groups = aggregated::NAMES.into_iter().map(CaBundleTarget::ApiService);
        let others = CONVERTED_CRDS.into_iter().map(CaBundleTarget::Crd).chain(groups).filter(|_| queues);
        let configurations = CONFIGURATIONS.iter().filter(|it| steps.contains(&it.step));
        others.chain(configurations.map(CaBundleTarget::Configuration)).collect()
    }

    fn kind(self) -> &'static Kind {
        match self {
            CaBundleTarget::Configuration(of) => of.kind,
            CaBundleTarget::Crd(_) => &kinds::CRDS,
            CaBundleTarget::ApiService(_) => &kinds::API_SERVICES,
        }
    }

    fn name(self) -> &'static str {
        match self {
            CaBundleTarget::Configuration(of) => of.name,
            CaBundleTarget::Crd(name) | CaBundleTarget::ApiService(name) => name,
        }
    }

    fn port(self, there: &Tree, service: &ServiceRef) -> Option<i64> {
        match self {
            CaBundleTarget::Configuration(of) => webhook_configurations::service_port(of, there, service),
            CaBundleTarget::Crd(_) => crds::service_port(there, service),
            CaBundleTarget::ApiService(_) => api_services::service_port(there, &service.leader_service()),
        }
    }

    fn ca_patch(self, there: &Tree, service: &ServiceRef, port: Option<i64>, bundle: &str) -> Option<Tree> {
        match self {
            CaBundleTarget::Configuration(of) => {
                webhook_configurations::ca_patch(of, there, service, port, bundle)
            }
            CaBundleTarget::Crd(_) => crds::ca_patch(there, service, port, bundle),
            CaBundleTarget::ApiService(_) => {
                api_services::ca_patch(there, &service.leader_service(), port, bundle)
            }
        }
    }

    /// Webhooks that are missing and that `muster install` creates; CRDs and APIServices are reported by discovery.
    fn missing_webhooks(self, there: Option<&Tree>) -> Option<String> {
        let CaBundleTarget::Configuration(of) = self else { return None };
        let Some(there) = there else { return Some(of.name.to_owned()) };
        let lacks = webhook_configurations::missing_webhooks(of, there);
        (!lacks.is_empty()).then(|| format!("{} of {}", lacks.join(", "), of.name))
    }
}

pub struct CertRotator {
    api: KubeApi,
    service: ServiceRef,
    lifetimes: CertificateLifetimes,
    reloader: Arc<CertReloader>,
    secret: WatchedObject,
    targets: Vec<(CaBundleTarget, WatchedObject)>,
    /// The Service port, from the last object that named it.
    port: Option<i64>,
    /// The CA bundle that all targets trust, and since when.
    trusted: Option<(String, Instant)>,
    /// The former CA, and since when it is the former one.
    former_ca: Option<(String, Instant)>,
    warned: BTreeMap<WarningTopic, String>,
}

impl CertRotator {
    /// Rotates the certificates of this Service, for the objects of these admission steps. What `holder` has in memory is
    /// restored when the Secret is damaged.
    pub fn new(
        api: &KubeApi,
        service: &ServiceRef,
        lives: CertificateLifetimes,
        holder: &Arc<CertReloader>,
        steps: &[Whose],
    ) -> CertRotator {
        let follow = |of: CaBundleTarget| (of, WatchedObject::start(api, of.kind(), "", of.name()));
        CertRotator {
            api: api.clone(),
            service: service.clone(),
            lifetimes: lives,
            reloader: holder.clone(),
            secret: WatchedObject::start(api, &kinds::SECRETS, &service.namespace, SECRET),
            targets: CaBundleTarget::for_steps(steps).into_iter().map(follow).collect(),
            port: None,
            trusted: None,
            former_ca: None,
            warned: BTreeMap::new(),
        }
    }

    /// Runs rounds until it is cancelled: on a change of a watched object, or when the next step is due.
    pub async fn run(mut self) {
        loop {
            let next = Instant::now() + self.run_round().await.clamp(ROUND_INTERVAL_MIN, ROUND_INTERVAL_MAX);
            tokio::time::sleep(ROUND_INTERVAL_MIN).await;
            let all = std::iter::once(&mut self.secret).chain(self.targets.iter_mut().map(|it| &mut it.1));
            tokio::select! {
                () = any_changed(all) => {}
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    /// One round; returns how long there is nothing to do.
    async fn run_round(&mut self) -> Duration {
        match self.reconcile().await {
            Ok(left) => {
                self.warned.remove(&WarningTopic::Server);
                left
            }
            // A concurrent write; the watch delivers it.
            Err(ApiError::Conflict(_) | ApiError::AlreadyExists(_) | ApiError::NotFound(_)) => RETRY_INTERVAL,
            Err(refusal) => {
                self.warn_once(
                    WarningTopic::Server,
                    format!("cannot reconcile the webhook certificates: {}", refusal.message()),
                );
                RETRY_INTERVAL
            }
        }
    }

    async fn reconcile(&mut self) -> Result<Duration, ApiError> {
        if !self.secret.is_synced() {
            return Ok(ROUND_INTERVAL_MAX);
        }
        for _ in 0..STEPS_MAX {
            let kept = match CertificateSecret::of(self.secret.tree()) {
                CertificateSecret::Owned(kept) => kept,
                CertificateSecret::Foreign(why) => {
                    self.warn_once(WarningTopic::Secret, format!(
                        "the Secret {}/{SECRET} is not managed by Muster: {why}; webhooks are unavailable without it. \
                         Delete it to have it created again",
                        self.service.namespace
                    ));
                    return Ok(ROUND_INTERVAL_MAX);
                }
            };
            // Certificates are renewed also while the configurations cannot be written.
            let mended = self.patch_ca_bundles(&kept).await;
            let (picture, step) = self.next_step(&kept);
            let after = match step {
                RotationStep::Wait(left) if !self.has_stale_keys(&kept, &picture) => {
                    return mended.map(|()| left);
                }
                step => self.apply_step(step, &kept)?,
            };
            tracing::info!(?step, "rotating webhook certificates");
            self.write(&after).await?;
        }
        Ok(ROUND_INTERVAL_MIN)
    }

    fn next_step(&mut self, kept: &CertificateSet) -> (CertificateSnapshot, RotationStep) {
        let names = self.service.certificate_names();
        let picture = kept.snapshot(&names);
        track_since(&mut self.former_ca, kept.former_ca().filter(|_| picture.serving.is_some()));
        let elapsed = Elapsed {
            trusted: self.trusted.as_ref().map(|(_, since)| since.elapsed()),
            former: self.former_ca.as_ref().map(|(_, since)| since.elapsed()).unwrap_or_default(),
        };
        let now = SystemClock.now();
        let whole =
            |it: &CertificateSnapshot| it.serving.is_some() && it.ca.is_some_and(|valid| valid.at(now));
        let remembered = self.reloader.current().is_some_and(|it| whole(&it.snapshot(&names)));
        let step = next_step(&picture, elapsed, remembered, now, &self.lifetimes);
        (picture, step)
    }

    /// Whether derived keys of the Secret (`ca.crt`, the annotation) differ from what its CAs imply.
    fn has_stale_keys(&self, kept: &CertificateSet, picture: &CertificateSnapshot) -> bool {
        picture.serving.is_some() && self.secret.tree().is_some_and(|it| kept.differs(it))
    }

    fn apply_step(&self, step: RotationStep, kept: &CertificateSet) -> Result<CertificateSet, ApiError> {
        let (names, before) = (self.service.certificate_names(), self.reloader.current());
        kept.apply_step(step, before.as_ref(), &names, SystemClock.now(), &self.lifetimes)
            .map_err(|error| ApiError::Indeterminate(error.to_string()))
    }

    async fn write(&mut self, kept: &CertificateSet) -> Result<(), ApiError> {
        let namespace = self.service.namespace.as_str();
        let (guard, act) = match self.secret.object() {
            None => (Preconditions::default(), RequestVerb::Create(kept.secret(namespace, SECRET))),
            Some(there) => (exact_preconditions(there), RequestVerb::MergePatch(kept.patch())),
        };
        let kind = kinds::SECRETS.clone();
        let on = RequestTarget {
            kind,
            namespace: namespace.into(),
            name: SECRET.into(),
            subresource: Subresource::Main,
        };
        let written = self
            .api
            .perform(&ApiRequest { field_manager: MANAGER, target: on, preconditions: guard, verb: act })
            .await?;
        self.secret.observe_write(written);
        Ok(())
    }

    /// Patches the CA bundle into every target that lacks it.
    async fn patch_ca_bundles(&mut self, kept: &CertificateSet) -> Result<(), ApiError> {
        let authorities = kept.ca_bundle();
        if authorities.is_empty() || !self.targets.iter().all(|(_, it)| it.is_synced()) {
            self.trusted = None;
            return Ok(());
        }
        self.warn_missing_webhooks();
        let bundle = BASE64_STANDARD.encode(&authorities);
        let mut refused = None;
        for at in 0..self.targets.len() {
            let Some(patch) = self.patch(at, &bundle) else { continue };
            self.trusted = None;
            // A busy API server takes seconds for each of these writes; the certificate in use must not expire meanwhile.
            // The rest is written in the next step.
            if self.next_step(kept).1 == RotationStep::RenewServing {
                return Ok(());
            }
            let (of, followed) = &mut self.targets[at];
            let Some(there) = followed.object() else { continue };
            let call = cluster_request(
                of.kind(),
                of.name(),
                exact_preconditions(there),
                RequestVerb::MergePatch(patch),
            );
            tracing::info!(name = of.name(), "updating the CA bundle");
            match self.api.perform(&call).await {
                Ok(written) => followed.observe_write(written),
                Err(refusal) => refused = Some(refusal),
            }
        }
        if let Some(refusal) = refused {
            return Err(refusal);
        }
        track_since(&mut self.trusted, Some(&authorities));
        Ok(())
    }

    fn patch(&mut self, at: usize, bundle: &str) -> Option<Tree> {
        let (of, followed) = &self.targets[at];
        let there = followed.tree()?;
        self.port = of.port(there, &self.service).or(self.port);
        of.ca_patch(there, &self.service, self.port, bundle)
    }

    /// Warns about missing webhooks.
    fn warn_missing_webhooks(&mut self) {
        let missing: Vec<String> =
            self.targets.iter().filter_map(|(of, it)| of.missing_webhooks(it.tree())).collect();
        if missing.is_empty() {
            self.warned.remove(&WarningTopic::Configurations);
            return;
        }
        self.warn_once(WarningTopic::Configurations, format!(
            "webhook configurations are missing: {}. Until then JobSets and queues are stored without validation. \
             Create them with `muster install`",
            missing.join(", ")
        ));
    }

    fn warn_once(&mut self, about: WarningTopic, words: String) {
        if self.warned.get(&about) != Some(&words) {
            tracing::warn!("{words}");
            self.warned.insert(about, words);
        }
    }
}

/// Resolves when any of the watches delivers a batch.
async fn any_changed(all: impl Iterator<Item = &mut WatchedObject>) {
    let mut hearing: Vec<_> = all.map(|it| Box::pin(it.wait_for_change())).collect();
    poll_fn(|context| {
        let heard = hearing.iter_mut().any(|it| it.as_mut().poll(context).is_ready());
        if heard { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Tracks since when a value is what it is.
fn track_since(noted: &mut Option<(String, Instant)>, now: Option<&str>) {
    match now {
        None => *noted = None,
        Some(now) if noted.as_ref().is_some_and(|(before, _)| before == now) => {}
        Some(now) => *noted = Some((now.to_owned(), Instant::now())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_disabled_steps_are_not_patched() {
        let about = |steps: &[Whose]| -> Vec<&str> {
            CaBundleTarget::for_steps(steps).iter().map(|it| it.name()).collect()
        };
        let jobsets = ["jobset-mutating-webhook-configuration", "jobset-validating-webhook-configuration"];
        assert_eq!(about(&[Whose::JobSets]), jobsets);
        let queues = about(&[Whose::Queues]);
        assert!(queues.iter().all(|it| it.contains("kueue") || it.contains("visibility")), "{queues:?}");
        assert_eq!(about(&[Whose::JobSets, Whose::Queues]).len(), queues.len() + jobsets.len());
    }
}
