//! What only the leader does: it registers webhooks, rotates certificates, and runs the controllers.
//!
//! # Guarantees
//!
//! - Webhooks reached by URL are registered by the leader alone; readiness is announced after the API server has called
//!   them. A leader that stops before that leaves no webhook configuration behind that nothing answers.
//! - Behind a Service the leader rotates the certificates, and announces itself after the API server has reached any
//!   replica; its controllers do not wait for that.
//! - Training pods trust the CAs of the moment: when the CA bundle changes, the controllers are restarted with the new one
//!   and write it into the ConfigMaps that pods mount. A next CA is in the bundle for the propagation delay before it
//!   signs a serving certificate.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use muster_apiserver::http::shutdown;
use muster_cluster::LeaderElector;
use muster_control::training::ProgressEndpoint;
use muster_install::webhooks::AdmissionStep;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::OperatorError;
use super::leader_label;
use super::options::{JOBSET, OperatorOptions, WebhookEndpoint};
use super::status::{OperatorStatus, Role};
use crate::cluster_runtime::{ClusterRuntime, RunOutcome};
use crate::discovery::ClusterCapabilities;
use crate::podgroup_detect;
use crate::webhooks::{LiveCluster, ServiceWebhookServer, UrlWebhookServer, WebhookError, keep_everybody};

/// How long the controllers wait for the first serving certificate when training pods need its CA. The certificate is
/// created at once unless something is wrong, and then nothing else should wait for it.
const CERTIFICATE_WAIT_MAX: Duration = Duration::from_secs(10);

pub struct Leader<'a> {
    pub options: &'a OperatorOptions,
    pub state: &'a Arc<OperatorStatus>,
    pub runtime: &'a mut ClusterRuntime,
    pub elector: &'a mut LeaderElector,
    /// The holder identity in the Lease.
    pub identity: &'a str,
    /// The webhook server, where it is behind a Service.
    pub webhook_server: Option<&'a ServiceWebhookServer>,
}

/// The readiness line, printed when every part that it promises is ready.
struct Announcement {
    server: String,
    pending_parts: AtomicU8,
}

impl Announcement {
    fn part_ready(&self) {
        if self.pending_parts.fetch_sub(1, Ordering::AcqRel) == 1 {
            super::announce(&self.server);
        }
    }
}

/// The URL of the progress endpoint, and the CA bundle that training pods verify it with.
struct StatusServerTrust {
    server: String,
    ca_bundle: watch::Receiver<String>,
}

impl StatusServerTrust {
    /// Waits for the first CA.
    async fn wait_for_ca(&mut self) {
        // The sender is dropped only when the operator stops.
        let _ = self.ca_bundle.wait_for(|it| !it.is_empty()).await;
    }

    /// The endpoint for the controllers; `None` while there is no CA.
    fn reporting(&mut self) -> Option<ProgressEndpoint> {
        let ca = self.ca_bundle.borrow_and_update();
        (!ca.is_empty())
            .then(|| ProgressEndpoint { server: self.server.as_str().into(), ca: ca.as_str().into() })
    }

    /// Resolves when the CA bundle changes; never without a bundle.
    async fn wait_for_change(told: Option<&mut StatusServerTrust>) {
        let heard = match told {
            Some(told) => told.ca_bundle.changed().await.is_ok(),
            None => false,
        };
        if !heard {
            std::future::pending::<()>().await;
        }
    }
}

enum StopReason {
    /// A signal, a crash, or the Lease was lost.
    Ended,
    /// Discovery found APIs that the controllers have to be restarted for.
    ClusterChanged(ClusterCapabilities),
    /// The CA bundle of the progress endpoint changed.
    CaChanged,
}

impl Leader<'_> {
    /// Runs until a signal comes or the Lease is lost.
    pub fn run(mut self) -> Result<RunOutcome, OperatorError> {
        let api = self.runtime.api().clone();
        let (lead, wanted) = (&mut *self.elector, self.options);
        let look = async {
            tokio::select! {
                found = ClusterCapabilities::discover(&api, &wanted.namespace, wanted.required_capabilities()) => Some(found),
                () = lead.lost() => None,
            }
        };
        let Some(found) = self.runtime.until_signal(look) else { return Ok(RunOutcome::Stopped) };
        let Some(found) = found else { return Ok(RunOutcome::Cancelled) };
        let found = found.map_err(|refusal| OperatorError::Discovery(refusal.message()))?;
        found.warn_new_problems(&[]);
        if wanted.required_capabilities().gangs {
            tracing::info!("{}", podgroup_detect::describe(found.gangs));
        }
        let mut webhooks = None;
        if !self.options.admission_handlers().is_empty()
            && self.options.webhook_endpoint == WebhookEndpoint::Url
        {
            self.state.set_webhooks_ready(false);
            let served = self.start_webhooks().and_then(|hooks| {
                let hooks = webhooks.insert(hooks);
                // The self-test is a dry run of a JobSet: it needs the CRD and our JobSet webhooks.
                self.register_webhooks(hooks, found.jobsets && self.options.admission.contains(JOBSET))
            });
            // A standby replica serves no URL webhooks, so its readiness must not depend on them.
            if !matches!(served, Ok(ControlFlow::Continue(()))) {
                self.state.set_webhooks_not_served();
            }
            if let ControlFlow::Break(end) = served? {
                return Ok(end);
            }
            self.state.set_webhooks_ready(true);
        }
        // If another controller admits JobSets, a successful self-test would prove nothing about our webhooks.
        let rehearses = self.options.admission_handlers().has(AdmissionStep::JobSets);
        let behind = self.webhook_server.is_some() && found.jobsets && rehearses;
        let server = self.runtime.api().server().to_owned();
        let awaited = AtomicU8::new(if behind { 2 } else { 1 });
        let announcement = Arc::new(Announcement { server, pending_parts: awaited });
        let keeping = self.spawn_background_tasks(behind.then(|| announcement.clone()));
        let ended = self.run_controllers(found, &announcement);
        drop(keeping);
        self.state.set_role(Role::Standby);
        if let Some(webhooks) = webhooks {
            self.state.set_webhooks_not_served();
            self.runtime.until_signal(webhooks.stop());
        }
        Ok(ended?)
    }

    /// Spawns the leader's background tasks: the namespace scope of the webhooks for unlabelled objects, the leader label, the
    /// certificate rotation, and the webhook self-test. They are aborted when the result is dropped or the Lease is lost.
    fn spawn_background_tasks(&self, awaits: Option<Arc<Announcement>>) -> JoinSet<()> {
        let mut keeping = JoinSet::new();
        let (api, _inside) = (self.runtime.api().with_separate_slots(), self.runtime.enter());
        if self.options.admission_handlers().has(AdmissionStep::Queues) {
            let (everybody, end) = (
                keep_everybody(api.clone(), self.options.queues.without_queue_name),
                self.elector.lost_signal(),
            );
            keeping.spawn(async move {
                tokio::select! {
                    () = end => {}
                    () = everybody => {}
                }
            });
        }
        let Some(behind) = self.webhook_server else { return keeping };
        if let Some(pod) =
            self.options.pod.clone().filter(|_| self.options.admission_handlers().has(AdmissionStep::Queues))
        {
            let (badge, end) = (
                leader_label::run(api.clone(), self.options.namespace.clone(), pod),
                self.elector.lost_signal(),
            );
            keeping.spawn(async move {
                tokio::select! {
                    () = end => {}
                    () = badge => {}
                }
            });
        }
        let (keeper, end) = (behind.cert_rotator(&api), self.elector.lost_signal());
        keeping.spawn(async move {
            tokio::select! {
                () = end => {}
                () = keeper.run() => {}
            }
        });
        if !self.options.admission_handlers().has(AdmissionStep::JobSets) {
            return keeping;
        }
        let asked = behind.wait_until_called(&api, self.identity);
        keeping.spawn(async move {
            asked.await;
            tracing::info!("webhook self-test passed: the API server calls the webhooks");
            if let Some(announcement) = awaits {
                announcement.part_ready();
            }
        });
        keeping
    }

    fn start_webhooks(&self) -> Result<UrlWebhookServer, WebhookError> {
        let _inside = self.runtime.enter();
        let live = Box::new(LiveCluster::new(self.runtime.api(), &self.options.namespace));
        UrlWebhookServer::start(
            self.options.webhook_address,
            live,
            self.options.admission_handlers(),
            self.state.webhook_metrics.clone(),
        )
    }

    /// Registers the webhooks; stops early, with a rollback, when a signal comes or the Lease is lost first.
    fn register_webhooks(
        &mut self,
        hooks: &UrlWebhookServer,
        rehearses: bool,
    ) -> Result<ControlFlow<RunOutcome>, WebhookError> {
        let api = self.runtime.api().clone();
        let (stopper, mut stop) = shutdown::pair();
        let lead = &mut *self.elector;
        let quit = async {
            tokio::select! {
                () = stop.stopped() => RunOutcome::Stopped,
                () = lead.lost() => RunOutcome::Cancelled,
            }
        };
        let work = hooks.register(&api, &self.options.namespace, rehearses, quit);
        Ok(self.runtime.run_to_completion(|| stopper.stop(), work)?)
    }

    /// The progress endpoint for training pods, if it is enabled; waits a bounded time for the first certificate.
    fn status_server_trust(&mut self) -> Option<StatusServerTrust> {
        let (hears, behind) = (self.options.status_server()?, self.webhook_server?);
        let mut told = StatusServerTrust { server: hears.server, ca_bundle: behind.ca_bundle() };
        let lead = &mut *self.elector;
        self.runtime.until_signal(async {
            tokio::select! {
                () = lead.lost() => {}
                waited = timeout(CERTIFICATE_WAIT_MAX, told.wait_for_ca()) => if waited.is_err() {
                    tracing::warn!("no serving certificate yet: TrainJobs that start now cannot report progress");
                }
            }
        });
        Some(told)
    }

    /// Runs the controllers, and restarts them when discovery finds another ResourceClaim version or gang API, or when the
    /// CA bundle changes.
    fn run_controllers(
        &mut self,
        mut found: ClusterCapabilities,
        announcement: &Arc<Announcement>,
    ) -> io::Result<RunOutcome> {
        let api = self.runtime.api().clone();
        let mut tell = Some(announcement.clone());
        let mut told = self.status_server_trust();
        loop {
            let (tell, mut came) = (tell.take(), StopReason::Ended);
            let reporting = told.as_mut().and_then(StatusServerTrust::reporting);
            let (wanted, lead, needs) =
                (self.options, &mut *self.elector, self.options.required_capabilities());
            let (state, idle) = (self.state.clone(), self.state.clone());
            let idle = move || idle.has_no_pending_pods();
            let beside = async {
                tokio::select! {
                    () = lead.lost() => {}
                    now = found.wait_for_change(&api, &wanted.namespace, needs, idle), if needs.any() => {
                        came = StopReason::ClusterChanged(now);
                    }
                    () = StatusServerTrust::wait_for_change(told.as_mut()) => came = StopReason::CaChanged,
                }
            };
            let ready = move |_: &str| {
                if let Some(announcement) = tell {
                    announcement.part_ready();
                }
            };
            let started = |window| state.set_role(Role::Leader(window));
            let controllers =
                wanted.controllers(found.resource_claims.clone(), found.gangs, reporting, &state.desk);
            let ended = self.runtime.run_controllers(controllers, ready, started, beside)?;
            let now = match came {
                StopReason::ClusterChanged(now) if ended == RunOutcome::Cancelled => now,
                StopReason::CaChanged if ended == RunOutcome::Cancelled => {
                    tracing::info!("CA bundle of the status server changed; restarting the controllers");
                    continue;
                }
                _ => return Ok(ended),
            };
            if now.resource_claims != found.resource_claims {
                tracing::info!(
                    version = now.resource_claims.as_ref().map(|it| it.version.as_str()),
                    "served version of resourceclaims changed; controllers restarted"
                );
            }
            if now.gangs != found.gangs {
                tracing::info!("{}", podgroup_detect::describe(now.gangs));
            }
            now.warn_new_problems(&found.problems);
            found = now;
        }
    }
}
