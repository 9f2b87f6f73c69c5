//! The pod worker: syncs one pod, and applies the actions of its lifecycle to the host.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::client::{ApiObject, Uid};
use muster_api::consts::{managers, reasons};
use muster_api::event::{Event, EventType, ObjectReference};
use muster_api::paths::pod as pod_path;
use muster_api::pod::PodPhase;
use muster_api::pod_run_spec::{PodRunSpec, ProbeHandler};
use muster_api::pod_status::PodAddresses;
use muster_api::time::Time;
use muster_api::{condition, consts, kinds, meta};
use muster_control::{ObjectKey, Step};
use muster_process::{ContainerConfig, ExitReason, RegisteredPod, RunId, RunState};
use muster_tree::{Text, Tree};

use super::LocalKubeletConfig;
use super::container_record::{StartError, pull_reasons};
use super::container_spec::{self, ContainerConfigError, PendingDependency, PodContext, Volume};
use super::host::NodeHost;
use super::lister::SyncContext;
use super::pleg::CheckResult;
use super::pod_lifecycle::{
    ContainerCheck, PodLifecycle, PodTermination, SyncAction, SyncActions, SyncInput, TerminationCause,
    check_of,
};
use super::pod_status::{crash_loop, ephemeral, report};

/// Retry interval of a container that cannot be started, unless an object it needs changes earlier.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);
/// A missing token is not reported as an error for this long: its TokenRequest is under way.
const TOKEN_WAIT: Duration = Duration::from_secs(5);
/// A container waits this long for the address of its rendezvous peer; then it starts without it.
const NEIGHBOUR_WAIT: Duration = Duration::from_secs(30);
/// Bound of decide-and-act rounds in one sync: each round only does what the previous one made possible.
const ROUNDS_MAX: usize = 8;

/// The worker of one pod.
pub struct PodWorker {
    pub key: ObjectKey,
    uid: Uid,
    work: PodRunSpec,
    life: PodLifecycle,
    address: Text,
    /// Volumes that are set up; `None` before the first set-up.
    volumes: Option<BTreeMap<Text, Volume>>,
    /// Whether an object that the pod references has changed since.
    volumes_stale: bool,
    hosts: Option<String>,
    /// Errors reported since the last start: each is emitted as an event once.
    reported_errors: BTreeSet<String>,
    /// Since when the pod waits for a dependency that is being created, e.g. a token.
    pending_since: Option<Time>,
    /// Since when it waits for the address of a peer.
    waits_for_peer_since: Option<Time>,
    newest: Time,
}

/// The result of one sync.
#[derive(Default)]
pub struct SyncResult {
    /// The status patch, if the status changed.
    pub status: Option<Tree>,
    /// Whether the pod object can be deleted with grace period zero.
    pub delete_pod: bool,
    pub events: Vec<Step>,
    /// When to sync again.
    pub requeue_at: Option<Time>,
}

/// Whether the run has not exited.
#[must_use]
pub fn is_active(state: &RunState) -> bool {
    !matches!(state, RunState::Exited(_))
}

impl PodWorker {
    /// Restores a worker from the run directories and the pod's status; a new pod has neither.
    #[must_use]
    pub fn restore(key: &ObjectKey, pod: &Tree, address: Text, machine: &dyn NodeHost) -> PodWorker {
        let work = PodRunSpec::of(pod);
        let mut life = PodLifecycle::new(&work);
        let uid = meta::uid(pod);
        let runs: Vec<RunId> =
            machine.containers().list_runs().into_iter().filter(|id| id.pod == *uid).collect();
        for (one, record) in work.containers.iter().zip(&mut life.containers) {
            let mut mine: Vec<&RunId> = runs.iter().filter(|id| *id.container == *one.name).collect();
            // Replays the runs in order, which also rebuilds the restart backoff.
            mine.sort_by_key(|id| id.attempt);
            for id in mine {
                record.observe_exit();
                record.start_run(id.attempt);
                if record.observe_state(one, machine.containers().state(id)) {
                    let _ = machine.containers().remove_run(id);
                }
            }
            super::pod_status::recall(pod, one, record);
        }
        let initialized =
            condition::is_true(pod.items_at(pod_path::CONDITIONS), consts::conditions::INITIALIZED);
        life.initialized = initialized && !pod.items_at(pod_path::CONTAINER_STATUSES).is_empty();
        PodWorker {
            key: key.clone(),
            uid,
            work,
            life,
            address,
            volumes: None,
            volumes_stale: true,
            hosts: None,
            reported_errors: BTreeSet::new(),
            pending_since: None,
            waits_for_peer_since: None,
            newest: Time::default(),
        }
    }

    /// Syncs the pod: observes the runtime, decides, acts, and returns status, events and the next sync.
    pub fn sync(&mut self, pod: &Tree, place: &mut SyncContext<'_>) -> SyncResult {
        let mut out = SyncResult::default();
        self.newest = place.now;
        self.work.update(pod);
        for at in self.observe_runs(place.machine) {
            self.emit_run_events(pod, at, &mut out);
        }
        let ended = PodPhase::of(pod.str_at(pod_path::PHASE)).is_terminal();
        let (fresh, mut refresh) = place.ring.take_fresh(&self.uid);
        let overdue = refresh.take_if(|at| *at <= place.now).is_some();
        self.volumes_stale |= fresh || overdue;
        if !ended {
            self.refresh_volumes(pod, place);
            self.write_hosts(pod, place);
        }
        // Probe results first: a failed liveness probe takes effect in this sync.
        for found in place.ring.take(&self.uid) {
            self.handle_check(pod, found, place, &mut out);
        }
        let asked = SyncInput {
            since: Time::of(pod.at(pod_path::START_TIME)).unwrap_or(place.now),
            delete_by: meta::deletion_timestamp(pod),
            shutdown_by: None,
            is_terminal: ended,
        };
        // A container that exits at once or starts as a sidecar unblocks the next one: repeat until there is no
        // action left.
        for _ in 0..ROUNDS_MAX {
            let next = self.life.sync(&self.work, &asked, place.now);
            out.requeue_at = next.requeue_at;
            if next.actions.is_empty() {
                break;
            }
            self.apply(pod, next, place, &mut out);
        }
        if ended {
            out.delete_pod = meta::deletion_timestamp(pod).is_some()
                && meta::deletion_grace_secs(pod) != 0
                && self.life.is_terminated();
            return out;
        }
        out.requeue_at = out.requeue_at.into_iter().chain(refresh).min();
        // A pod without an IP that only waits for its token has no status to report yet.
        let silent = self.pending_since.is_some() && pod.str_at(pod_path::POD_IP).is_empty();
        if !silent {
            out.status = self.status(pod, &place.setup.told.address, place.now);
        }
        out
    }

    /// The status patch, if it changes anything.
    fn status(&self, pod: &Tree, host: &Text, now: Time) -> Option<Tree> {
        let report = report(pod, &self.work, &self.life, now);
        let addresses = PodAddresses { host: host.clone(), pod: self.address.clone() };
        let mut patch = report.patch(pod, &addresses, now);
        if let Some(statuses) = ephemeral(pod) {
            patch = patch.with(&["status", "ephemeralContainerStatuses"], statuses);
        }
        (pod.merge(&patch) != *pod).then_some(patch)
    }

    /// Observes the state of all runs; returns the indices of the containers that changed.
    fn observe_runs(&mut self, machine: &dyn NodeHost) -> Vec<usize> {
        let mut news = Vec::new();
        for at in 0..self.life.containers.len() {
            if !self.life.containers[at].is_active() {
                continue;
            }
            let Some(id) = self.id(at) else { continue };
            let state = machine.containers().state(&id);
            let record = &mut self.life.containers[at];
            if state.is_some() && state != record.state {
                if record.observe_state(&self.work.containers[at], state) {
                    // If the directory remains, the next start of this attempt fails and reports it.
                    let _ = machine.containers().remove_run(&id);
                }
                news.push(at);
            }
        }
        news
    }

    /// Emits the events of a container that started or failed to start.
    fn emit_run_events(&self, pod: &Tree, at: usize, out: &mut SyncResult) {
        let name = &self.work.containers[at].name;
        let record = &self.life.containers[at];
        if let Some(pull) = record.pull.as_ref().filter(|_| !record.is_active()) {
            let mut warn = |reason, text: &str| out.events.push(event(pod, EventType::Warning, reason, text));
            match pull.reason {
                pull_reasons::NEVER => warn(pull_reasons::NEVER, &pull.message),
                _ => warn(
                    reasons::FAILED,
                    &format!("Failed to pull image {:?}: {}", pull.image.as_str(), pull.message),
                ),
            }
            return warn(reasons::FAILED, &format!("Error: {}", pull.reason));
        }
        match &record.state {
            Some(RunState::Running { .. }) => {
                let text = format!("Container started: {name}");
                out.events.push(event(pod, EventType::Normal, reasons::STARTED, &text));
            }
            Some(RunState::Exited(end)) if end.why == ExitReason::NotStarted => {
                let text = format!("Error: container {name}: {}", end.message);
                out.events.push(event(pod, EventType::Warning, reasons::FAILED, &text));
            }
            _ => {}
        }
    }

    /// The newest run of a container.
    fn id(&self, at: usize) -> Option<RunId> {
        let attempt = self.life.containers[at].attempt?;
        let container = self.work.containers[at].name.to_string();
        Some(RunId { pod: self.uid.to_string(), container, attempt })
    }

    fn handle_check(
        &mut self,
        pod: &Tree,
        found: CheckResult,
        place: &mut SyncContext<'_>,
        out: &mut SyncResult,
    ) {
        // A result of an earlier run says nothing about the current one.
        if self.life.containers[found.container].attempt != Some(found.attempt) {
            return;
        }
        let next = self.life.record_check(&self.work, found.container, found.what, found.result, place.now);
        self.apply(pod, next, place, out);
    }

    fn apply(&mut self, pod: &Tree, next: SyncActions, place: &mut SyncContext<'_>, out: &mut SyncResult) {
        for action in next.actions {
            match action {
                SyncAction::Note(severity, reason, message) => {
                    out.events.push(event(pod, severity, reason, &message));
                }
                SyncAction::Start(at, attempt) => self.start(pod, at, attempt, place, out),
                SyncAction::Signal(at, signal) => {
                    if let Some(id) = self.id(at) {
                        place.machine.containers().signal(&id, signal);
                    }
                }
                SyncAction::Kill(at) => {
                    if let Some(id) = self.id(at) {
                        place.machine.containers().kill(&id);
                    }
                }
                SyncAction::Check(at, what) => self.check(at, what, place),
            }
        }
    }

    fn check(&mut self, at: usize, what: ContainerCheck, place: &mut SyncContext<'_>) {
        let Some(id) = self.id(at) else { return };
        let Some((check, timeout)) = check_of(&self.work.containers[at], what) else { return };
        let (ring, attempt, uid) = (place.ring.clone(), id.attempt, self.uid.clone());
        // Called on the prober's thread: stores the result and enqueues the pod.
        let done = move |result| ring.leave(&uid, CheckResult { container: at, attempt, what, result });
        place.machine.check(&id, &self.address, check, timeout, Box::new(done));
    }

    fn start(
        &mut self,
        pod: &Tree,
        at: usize,
        attempt: u32,
        place: &mut SyncContext<'_>,
        out: &mut SyncResult,
    ) {
        match self.launch(pod, at, attempt, place) {
            Ok(launch) => {
                self.reported_errors.clear();
                (self.pending_since, self.waits_for_peer_since) = (None, None);
                self.remove_old_run(at, attempt, place.machine);
                self.life.start_run(at, attempt);
                self.emit_start_events(pod, at, &launch, place.setup.images, out);
            }
            Err(problem) if self.is_pending(&problem, place.now) => {
                let trouble = StartError {
                    reason: problem.waiting.into(),
                    message: Text::new(),
                    again: place.now + TOKEN_WAIT,
                };
                self.life.set_start_error(at, trouble);
            }
            Err(problem) => {
                self.pending_since = None;
                // One event per distinct error until the next successful start.
                if self.reported_errors.insert(problem.message.clone()) {
                    out.events.push(event(pod, EventType::Warning, problem.event, &problem.note()));
                }
                let again = place.now + RETRY_INTERVAL;
                let (reason, message) = (problem.waiting.into(), problem.message.as_str().into());
                self.life.set_start_error(at, StartError { reason, message, again });
            }
        }
    }

    /// Whether the dependency is expected shortly, so that no event is emitted yet.
    fn is_pending(&mut self, problem: &ContainerConfigError, now: Time) -> bool {
        match problem.awaits() {
            Some(PendingDependency::Token) => now < *self.pending_since.get_or_insert(now) + TOKEN_WAIT,
            // The status must be written meanwhile: the peer may wait for the IP of this pod.
            Some(PendingDependency::Neighbour) => {
                self.pending_since = None;
                self.waits_for_peer_since.get_or_insert(now);
                true
            }
            None => false,
        }
    }

    fn launch(
        &mut self,
        pod: &Tree,
        at: usize,
        attempt: u32,
        place: &mut SyncContext<'_>,
    ) -> Result<ContainerConfig, ContainerConfigError> {
        self.set_up_volumes(pod, place)?;
        let name = &self.work.containers[at].name;
        let containers =
            pod.items_at(pod_path::INIT_CONTAINERS).iter().chain(pod.items_at(pod_path::CONTAINERS));
        let container = containers.into_iter().find(|it| container_name(it) == name.as_str()).cloned();
        let container = container.unwrap_or_else(Tree::empty_map);
        self.reject_unsupported_checks(at)?;
        let volumes = self.volumes.clone().unwrap_or_default();
        let lookup = place.lookup();
        // After the timeout the hostname is passed on unresolved, and the program may resolve it itself.
        let patient = self.waits_for_peer_since.is_none_or(|since| place.now < since + NEIGHBOUR_WAIT);
        let mut launch = {
            let house = PodContext { patient, ..place.house(&lookup, &self.address) };
            container_spec::generate_container_config(pod, &container, attempt, &volumes, &house)?
        };
        launch.limits.processes = place.setup.processes_max.unwrap_or(launch.limits.processes);
        place.machine.containers().start(&launch).map_err(|message| ContainerConfigError {
            event: reasons::FAILED,
            waiting: reasons::RUN_ERROR,
            message,
        })?;
        Ok(launch)
    }

    /// Rejects unsupported probe handlers: a probe that always fails would kill a healthy container.
    fn reject_unsupported_checks(&self, at: usize) -> Result<(), ContainerConfigError> {
        let one = &self.work.containers[at];
        let all = [
            ContainerCheck::Startup,
            ContainerCheck::Liveness,
            ContainerCheck::Readiness,
            ContainerCheck::PostStart,
            ContainerCheck::PreStop,
        ];
        let checks = all.iter().filter_map(|what| check_of(one, *what).map(|(check, _)| check));
        let mut odd = checks.filter_map(|check| match check {
            ProbeHandler::Unsupported(word) => Some(word.to_string()),
            ProbeHandler::Http { tls: true, .. } => Some("httpGet over HTTPS".to_owned()),
            _ => None,
        });
        let Some(word) = odd.next() else { return Ok(()) };
        Err(ContainerConfigError {
            event: reasons::FAILED,
            waiting: reasons::CREATE_CONTAINER_CONFIG,
            message: format!("{word} checks are not made by this node: use httpGet, tcpSocket or exec"),
        })
    }

    fn emit_start_events(
        &self,
        pod: &Tree,
        at: usize,
        launch: &ContainerConfig,
        images: bool,
        out: &mut SyncResult,
    ) {
        let one = &self.work.containers[at];
        let mut say = |reason, text: &str| out.events.push(event(pod, EventType::Normal, reason, text));
        // Once per container, not per restart.
        if launch.id.attempt == 0 && !images {
            let program = &launch.argv[0];
            let text = format!(
                "Image \"{}\" is only a name here: {program:?} runs with the programs of this machine",
                one.image
            );
            say(reasons::HOST_PROGRAM, &text);
        }
        say(reasons::CREATED, &format!("Container created: {}", one.name));
        // The first restart has no backoff.
        if launch.id.attempt > 1 {
            let text = crash_loop(pod, one, &self.life.containers[at]);
            out.events.push(event(pod, EventType::Warning, reasons::BACK_OFF, &text));
        }
    }

    /// Removes all runs but the current one and the previous one, the source of `kubectl logs --previous`.
    fn remove_old_run(&self, at: usize, attempt: u32, machine: &dyn NodeHost) {
        let Some(old) = attempt.checked_sub(2) else { return };
        let container = self.work.containers[at].name.to_string();
        // A failure leaves the directory to the removal of the pod.
        let _ =
            machine.containers().remove_run(&RunId { pod: self.uid.to_string(), container, attempt: old });
    }

    /// Sets up the volumes before the first container starts.
    fn set_up_volumes(
        &mut self,
        pod: &Tree,
        place: &mut SyncContext<'_>,
    ) -> Result<(), ContainerConfigError> {
        if self.volumes.is_some() {
            return Ok(());
        }
        let lookup = place.lookup();
        let volumes = container_spec::volumes(pod, &place.house(&lookup, &self.address))?;
        for (name, volume) in &volumes {
            place.machine.lay(volume).map_err(|why| ContainerConfigError::with_volume(name, &why))?;
        }
        self.volumes = Some(volumes);
        self.volumes_stale = false;
        Ok(())
    }

    /// Updates projected volumes after a change of a ConfigMap, Secret or token.
    fn refresh_volumes(&mut self, pod: &Tree, place: &mut SyncContext<'_>) {
        if !std::mem::take(&mut self.volumes_stale) {
            return;
        }
        self.life.retry_start_errors(place.now);
        let Some(old) = &self.volumes else { return };
        let lookup = place.lookup();
        let Ok(new) = container_spec::volumes(pod, &place.house(&lookup, &self.address)) else { return };
        for (name, volume) in new.iter().filter(|(name, volume)| old.get(*name) != Some(volume)) {
            if let Err(why) = place.machine.lay(volume) {
                tracing::warn!(pod = %self.key.name, volume = %name, %why, "failed to update volume");
                self.volumes_stale = true;
                return;
            }
        }
        self.volumes = Some(new);
    }

    fn write_hosts(&mut self, pod: &Tree, place: &mut SyncContext<'_>) {
        if self.hosts.is_some() {
            return;
        }
        let text = place.hosts(pod, &self.address);
        match place.machine.write_hosts(&self.uid, &text) {
            Ok(()) => self.hosts = Some(text),
            Err(why) => tracing::warn!(pod = %self.key.name, %why, "failed to write hosts file"),
        }
    }

    /// Hostnames of other pods have changed: the hosts file is stale.
    pub fn invalidate_hosts(&mut self) {
        self.hosts = None;
        self.volumes_stale |= self.waits_for_peer_since.is_some();
    }

    /// An object that the pod may reference has changed: its volumes are stale.
    pub fn invalidate_volumes(&mut self) -> ObjectKey {
        self.volumes_stale = true;
        self.key.clone()
    }

    /// Kills all containers; returns whether one is still alive.
    pub fn kill(&mut self, machine: &dyn NodeHost) -> bool {
        self.stop(machine, false, true)
    }

    /// The pod's entry in the registry.
    #[must_use]
    pub fn registered_pod(&self) -> RegisteredPod {
        let all = || self.work.containers.iter().zip(&self.life.containers);
        let waits = |name: &Text, why: &str| (name.to_string(), why.to_owned());
        RegisteredPod {
            uid: self.uid.to_string(),
            address: self.address.to_string(),
            attempts: all()
                .filter_map(|(one, record)| Some((one.name.to_string(), record.attempt?)))
                .collect(),
            containers: all().map(|(one, _)| one.name.to_string()).collect(),
            waiting: all()
                .filter(|(_, record)| record.attempt.is_none())
                .map(|(one, record)| match &record.trouble {
                    Some(trouble) => waits(&one.name, &trouble.reason),
                    None if self.life.initialized => waits(&one.name, reasons::CONTAINER_CREATING),
                    None => waits(&one.name, reasons::POD_INITIALIZING),
                })
                .collect(),
        }
    }

    /// The grace period, or zero if no container is alive.
    #[must_use]
    pub fn grace(&self) -> Duration {
        if self.life.containers.iter().any(super::container_record::ContainerRecord::is_active) {
            self.work.grace
        } else {
            Duration::ZERO
        }
    }

    /// Sends the stop signal or SIGKILL to all runs; returns whether one is still alive.
    pub fn stop(&mut self, machine: &dyn NodeHost, ask: bool, force: bool) -> bool {
        self.observe_runs(machine);
        for at in (0..self.life.containers.len()).filter(|at| self.life.containers[*at].is_active()) {
            let Some(id) = self.id(at) else { continue };
            if ask {
                machine.containers().signal(&id, self.work.containers[at].stop_signal);
            }
            if force {
                machine.containers().kill(&id);
            }
        }
        self.life.containers.iter().any(super::container_record::ContainerRecord::is_active)
    }

    /// The status of a pod that the graceful node shutdown terminated.
    pub fn shutdown_status(
        &mut self,
        pod: &ApiObject,
        setup: &LocalKubeletConfig,
        machine: &dyn NodeHost,
    ) -> Option<Tree> {
        let pod = &pod.tree;
        if PodPhase::of(pod.str_at(pod_path::PHASE)).is_terminal() {
            return None;
        }
        self.observe_runs(machine);
        self.life.ending.get_or_insert(PodTermination { why: TerminationCause::Shutdown, by: self.newest });
        self.status(pod, &setup.told.address, self.newest)
    }
}

fn container_name(container: &Tree) -> &str {
    container.str_at(muster_api::paths::container::NAME)
}

fn event(pod: &Tree, severity: EventType, reason: &'static str, message: &str) -> Step {
    Step::Event(Event {
        action: Text::new(),
        reporting_controller: managers::KUBELET.clone(),
        regarding: ObjectReference::of(&kinds::PODS, "Pod", pod),
        event_type: severity,
        reason: reason.into(),
        message: message.into(),
    })
}
