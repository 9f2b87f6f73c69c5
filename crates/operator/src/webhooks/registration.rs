//! Registers URL webhooks with the API server, and verifies that it calls them.
//!
//! # Guarantees
//!
//! - A registration that ends before the first call was observed restores the configurations as it found them, except
//!   where another client has written since.
//! - Requests are never aborted: the outcome of every write is known before the next step.
//! - A configuration is replaced as a whole: no webhook of another controller remains in it.

use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use muster_api::client::{
    ApiError, ApiObject, ApiRequest, DeletionPropagation, Kind, Preconditions, RequestTarget, RequestVerb,
    Subresource,
};
use muster_api::kinds;
use muster_cluster::KubeApi;
use muster_install::conversion::{self, CONVERTED_CRDS};
use muster_install::webhooks::{
    AdmissionStep, CONFIGURATIONS, WebhookClientConfig, WebhookConfiguration, replace_webhooks_patch,
};
use muster_tree::{Text, Tree, literal, tree};

use super::self_test;

/// Field manager of the webhook configurations.
pub const MANAGER: Text = literal!("muster-webhooks");
/// Attempts of the self-test, and the pause between two.
const SELF_TEST_TRIES: u32 = 150;
const SELF_TEST_INTERVAL: Duration = Duration::from_millis(200);
/// Self-tests that may succeed without a call: an API server observes new configurations within seconds, or never.
const UNCALLED_TRIES: u32 = 50;
/// Attempts of a write that conflicts.
const WRITE_TRIES: u32 = 5;
/// Deadline of one request: a stop signal waits for it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The API server rejects the configuration.
    #[error(
        "{name} cannot be written: {problem}\n\nhint: check that this user may get, create, patch and delete webhook configurations"
    )]
    Refused {
        name: &'static str,
        /// What the server said.
        problem: String,
    },
    /// The API server does not reach the webhooks.
    #[error(
        "the API server does not reach the webhooks at {base}; it says: {problem}\n\nhint: run the operator on the host of the API server, or listen on an address that it reaches with `--webhook-listen ADDRESS:PORT`; `--admission ''` registers no webhooks, as for `muster up`, which admits JobSets without webhooks"
    )]
    Unreachable {
        base: String,
        /// The reply to the last dry run.
        problem: String,
    },
}

/// The requests that a registration sends; tests replace it.
pub trait RegistrationApi {
    async fn perform(&self, call: &ApiRequest) -> Result<ApiObject, ApiError>;
    /// Sends a request with `dryRun=All`.
    async fn dry_run(&self, call: &ApiRequest) -> Result<ApiObject, ApiError>;
}

impl RegistrationApi for KubeApi {
    async fn perform(&self, call: &ApiRequest) -> Result<ApiObject, ApiError> {
        KubeApi::perform(self, call).await
    }

    async fn dry_run(&self, call: &ApiRequest) -> Result<ApiObject, ApiError> {
        KubeApi::dry_run(self, call).await
    }
}

/// A request for a webhook configuration.
pub fn configuration_request(
    of: &WebhookConfiguration,
    guard: Preconditions,
    act: RequestVerb,
) -> ApiRequest {
    cluster_request(of.kind, of.name, guard, act)
}

/// A request for a cluster-scoped object.
pub fn cluster_request(kind: &Kind, name: &str, guard: Preconditions, act: RequestVerb) -> ApiRequest {
    let on = RequestTarget {
        kind: kind.clone(),
        namespace: Text::new(),
        name: name.into(),
        subresource: Subresource::Main,
    };
    ApiRequest { field_manager: MANAGER, target: on, preconditions: guard, verb: act }
}

pub fn exact_preconditions(object: &ApiObject) -> Preconditions {
    Preconditions { uid: Some(object.tree.text_at(&["metadata", "uid"])), revision: Some(object.revision) }
}

/// The configuration before our write, for the rollback.
struct PreviousConfiguration {
    of: &'static WebhookConfiguration,
    tree: Option<Tree>,
}

/// A registration in progress.
pub struct Registration<'a, P> {
    api: &'a P,
    /// The operator's namespace, for the dry run.
    namespace: &'a str,
    base: &'a str,
    ca_bundle: String,
    steps: &'a [AdmissionStep],
    previous: Vec<PreviousConfiguration>,
}

impl<'a, P: RegistrationApi> Registration<'a, P> {
    /// Registers the webhooks of these steps at this URL with this CA (PEM, created for this process alone); dry runs are sent
    /// to `namespace`.
    pub fn new(
        plane: &'a P,
        namespace: &'a str,
        base: &'a str,
        authority: &str,
        steps: &'a [AdmissionStep],
    ) -> Registration<'a, P> {
        let authority = BASE64_STANDARD.encode(authority);
        Registration { api: plane, namespace, base, ca_bundle: authority, steps, previous: Vec::new() }
    }

    /// Registers the webhooks and waits until they were called (`heard`); without `heard`, where the cluster has no JobSets
    /// to dry-run. Returns early with the value of `quit`.
    ///
    /// The configurations stay when the operator stops later: with `failurePolicy: Fail`, JobSets are then rejected instead
    /// of being stored unvalidated.
    ///
    /// # Errors
    /// The API server rejects the registration, or does not reach the webhooks.
    pub async fn run<Q>(
        mut self,
        heard: Option<&dyn Fn() -> bool>,
        quit: impl Future<Output = Q>,
    ) -> Result<ControlFlow<Q>, RegisterError> {
        let done = self.register_and_test(heard, pin!(quit)).await;
        if !matches!(done, Ok(ControlFlow::Continue(()))) {
            self.roll_back().await;
        } else if self.steps.contains(&AdmissionStep::Queues) {
            self.register_conversion().await;
        }
        done
    }

    /// Registers the conversion webhook in our CRDs. Failures are logged only: the stored version is served without it.
    async fn register_conversion(&self) {
        let by = conversion::webhook_conversion(self.client_config().client(conversion::PATH));
        for name in CONVERTED_CRDS {
            let get = cluster_request(&kinds::CRDS, name, Preconditions::default(), RequestVerb::Get);
            let Ok(there) = self.request(&get).await else { continue };
            let patch = RequestVerb::MergePatch(conversion::conversion_patch(&by));
            let patch = cluster_request(&kinds::CRDS, name, exact_preconditions(&there), patch);
            if let Err(refusal) = self.request(&patch).await {
                tracing::warn!(error = %refusal, name, "no conversion webhook for this CRD");
            }
        }
    }

    fn client_config(&self) -> WebhookClientConfig<'_> {
        WebhookClientConfig::Url { base: self.base, authority: &self.ca_bundle }
    }

    async fn register_and_test<Q>(
        &mut self,
        heard: Option<&dyn Fn() -> bool>,
        mut quit: Pin<&mut impl Future<Output = Q>>,
    ) -> Result<ControlFlow<Q>, RegisterError> {
        for one in CONFIGURATIONS.iter().filter(|it| self.steps.contains(&it.step)) {
            let refused = |e: ApiError| RegisterError::Refused { name: one.name, problem: e.message() };
            self.write(one).await.map_err(refused)?;
            tokio::select! {
                biased;
                why = &mut quit => return Ok(ControlFlow::Break(why)),
                () = std::future::ready(()) => {}
            }
        }
        let Some(heard) = heard else { return Ok(ControlFlow::Continue(())) };
        tokio::select! {
            why = &mut quit => Ok(ControlFlow::Break(why)),
            done = run_self_test(self.api, self.namespace, heard) => match done {
                Ok(()) => Ok(ControlFlow::Continue(())),
                Err(problem) => Err(RegisterError::Unreachable { base: self.base.to_owned(), problem }),
            },
        }
    }

    async fn request(&self, call: &ApiRequest) -> Result<ApiObject, ApiError> {
        let late = |_| Err(ApiError::Indeterminate(format!("no answer within {REQUEST_TIMEOUT:?}")));
        tokio::time::timeout(REQUEST_TIMEOUT, self.api.perform(call)).await.unwrap_or_else(late)
    }

    async fn read(&self, of: &WebhookConfiguration) -> Result<Option<ApiObject>, ApiError> {
        match self.request(&configuration_request(of, Preconditions::default(), RequestVerb::Get)).await {
            Ok(there) => Ok(Some(there)),
            Err(ApiError::NotFound(_)) => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// Replaces a configuration, and records what was there before.
    async fn write(&mut self, of: &'static WebhookConfiguration) -> Result<(), ApiError> {
        let hooks = of.hooks(&self.client_config(), self.namespace);
        let mut tries = 1;
        loop {
            let there = self.read(of).await?;
            let write = match &there {
                None => configuration_request(
                    of,
                    Preconditions::default(),
                    RequestVerb::Create(of.object(hooks.clone())),
                ),
                Some(there) => configuration_request(
                    of,
                    exact_preconditions(there),
                    RequestVerb::MergePatch(replace_webhooks_patch(hooks.clone(), &Tree::Null)),
                ),
            };
            // Recorded before it is sent: a write whose reply is lost may have happened and has to be rolled back, too.
            self.previous.retain(|it| it.of.name != of.name);
            self.previous.push(PreviousConfiguration { of, tree: there.map(|it| it.tree) });
            match self.request(&write).await {
                Err(ApiError::AlreadyExists(_) | ApiError::Conflict(_) | ApiError::NotFound(_))
                    if tries < WRITE_TRIES =>
                {
                    tries += 1;
                }
                done => return done.map(|_| ()),
            }
        }
    }

    async fn roll_back(&self) {
        for before in &self.previous {
            if let Err(refusal) = self.restore(before).await {
                tracing::warn!(error = %refusal, name = before.of.name, "cannot roll back the webhook configuration");
            }
        }
    }

    async fn restore(&self, before: &PreviousConfiguration) -> Result<(), ApiError> {
        let Some(there) = self.read(before.of).await?.filter(|it| self.is_ours(&it.tree)) else {
            return Ok(());
        };
        let act = match &before.tree {
            None => {
                RequestVerb::Delete { propagation_policy: DeletionPropagation::Background, grace_secs: None }
            }
            Some(tree) => RequestVerb::MergePatch(replace_webhooks_patch(
                tree.get("webhooks").cloned().unwrap_or_else(|| tree!([])),
                tree,
            )),
        };
        match self.request(&configuration_request(before.of, exact_preconditions(&there), act)).await {
            // Another client has written it since: it is theirs now.
            Err(ApiError::Conflict(_) | ApiError::NotFound(_)) => Ok(()),
            done => done.map(|_| ()),
        }
    }

    /// Whether a configuration references this very process: no other has its CA.
    fn is_ours(&self, configuration: &Tree) -> bool {
        let hooks = configuration.items_at(&["webhooks"]);
        let ours = |hook: &Tree| {
            let url = hook.str_at(&["clientConfig", "url"]);
            url.starts_with(self.base) && hook.str_at(&["clientConfig", "caBundle"]) == self.ca_bundle
        };
        !hooks.is_empty() && hooks.iter().all(ours)
    }
}

/// Sends dry runs of a JobSet until the API server calls our webhooks: it observes new configurations with a delay.
async fn run_self_test(
    plane: &impl RegistrationApi,
    namespace: &str,
    heard: &dyn Fn() -> bool,
) -> Result<(), String> {
    let call = self_test::request(namespace, None);
    let (mut said, mut unasked) = (String::new(), 0);
    for _ in 0..SELF_TEST_TRIES {
        let rehearsed = plane.dry_run(&call).await;
        if heard() {
            return Ok(());
        }
        match rehearsed {
            Ok(_) => unasked += 1,
            Err(refusal) => said = refusal.message(),
        }
        if unasked == UNCALLED_TRIES {
            return Err("nothing; it accepts JobSets without calling the webhooks".to_owned());
        }
        tokio::time::sleep(SELF_TEST_INTERVAL).await;
    }
    Err(said)
}

#[cfg(test)]
mod tests;
