//! The lifecycle of a pod, after the kubelet's SyncPod: init containers, sidecars, restarts, probes, hooks,
//! termination.
//!
//! [`PodLifecycle::sync`] is pure: the pod's run spec, the container records and the time yield actions. The pod
//! worker performs them and reports the results ([`PodLifecycle::start_run`], [`PodLifecycle::record_check`]).
//!
//! # Guarantees
//!
//! - A container starts only after the init containers and sidecars before it have completed or started, and never
//!   while it has an active run.
//! - A terminating pod starts no container. It is terminated when no run is active.
//! - Main containers stop first, sidecars after them in reverse order, all within one grace period.

use std::time::Duration;

use muster_api::consts::reasons;
use muster_api::event::EventType;
use muster_api::pod::PodPhase;
use muster_api::pod_run_spec::{ContainerRole, ContainerRunSpec, PodRunSpec, Probe, ProbeHandler};
use muster_api::time::Time;

use super::container_record::{ContainerRecord, ContainerTermination, HookState, StartError, pull_reasons};

/// Minimum time between SIGTERM and SIGKILL after a preStop hook has used up the grace period, as in the kubelet.
const SIGNAL_GRACE_MIN: Duration = Duration::from_secs(2);

/// Maximum duration of a lifecycle hook; the termination of its container ends it earlier.
const HOOK_MAX: Duration = Duration::from_secs(3600);

/// The containers of a pod, in the order of its [`PodRunSpec`].
#[derive(Debug)]
pub struct PodLifecycle {
    pub containers: Vec<ContainerRecord>,
    /// Whether all init containers completed once: the condition Initialized.
    pub initialized: bool,
    /// Set while the pod is being terminated.
    pub ending: Option<PodTermination>,
}

/// The termination of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodTermination {
    pub why: TerminationCause,
    /// When running containers are killed.
    pub by: Time,
}

/// Why a pod ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminationCause {
    /// Its work is done.
    Done,
    /// An init container failed and is not restarted.
    InitFailed,
    /// `activeDeadlineSeconds` of the pod expired.
    Deadline,
    Deleted,
    /// The node shuts down gracefully.
    Shutdown,
    /// The API server has the pod in a terminal phase, or no longer has it.
    Over,
}

/// Input of a sync from the API server and the node.
#[derive(Debug, Clone, Copy, Default)]
pub struct SyncInput {
    /// `status.startTime` of the pod.
    pub since: Time,
    /// `metadata.deletionTimestamp`: the end of the grace period.
    pub delete_by: Option<Time>,
    /// End of the graceful node shutdown.
    pub shutdown_by: Option<Time>,
    /// Whether the pod's phase is terminal.
    pub is_terminal: bool,
}

/// A probe or lifecycle hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerCheck {
    /// Whether it has come up.
    Startup,
    /// Whether it is alive.
    Liveness,
    /// Whether it can serve.
    Readiness,
    PostStart,
    PreStop,
}

/// One action; containers are identified by their index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyncAction {
    Start(usize, u32),
    /// Send a signal to the current run.
    Signal(usize, i32),
    /// Kill the current run.
    Kill(usize),
    Check(usize, ContainerCheck),
    Note(EventType, &'static str, String),
}

/// Actions, and when to sync again if no event arrives earlier.
#[derive(Debug, Default)]
pub struct SyncActions {
    pub actions: Vec<SyncAction>,
    /// When to ask again.
    pub requeue_at: Option<Time>,
}

impl SyncActions {
    fn requeue(&mut self, at: Option<Time>) {
        self.requeue_at = self.requeue_at.into_iter().chain(at).min();
    }

    fn warn(&mut self, reason: &'static str, message: String) {
        self.actions.push(SyncAction::Note(EventType::Warning, reason, message));
    }
}

impl PodLifecycle {
    /// The lifecycle of a pod that has not started.
    #[must_use]
    pub fn new(work: &PodRunSpec) -> PodLifecycle {
        let containers = work.containers.iter().map(|_| ContainerRecord::default()).collect();
        PodLifecycle { containers, initialized: false, ending: None }
    }

    /// Whether the pod is being terminated and no run is active.
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        self.ending.is_some() && self.containers.iter().all(|record| !record.is_active())
    }

    /// The terminal phase; meaningful once [`PodLifecycle::is_terminated`].
    #[must_use]
    pub fn terminal_phase(&self, work: &PodRunSpec) -> PodPhase {
        let main_containers =
            work.containers.iter().zip(&self.containers).filter(|(spec, _)| spec.role == ContainerRole::Main);
        let codes =
            main_containers.map(|(_, record)| record.exit_record().map_or(1, |end| i64::from(end.code)));
        match self.ending.as_ref().map(|ending| ending.why) {
            // A pod that was cut short is Failed, even if its containers exit with 0 on SIGTERM.
            Some(TerminationCause::Deadline | TerminationCause::InitFailed | TerminationCause::Shutdown) => {
                PodPhase::Failed
            }
            _ => PodRunSpec::terminal_phase(codes),
        }
    }

    pub fn sync(&mut self, work: &PodRunSpec, asked: &SyncInput, now: Time) -> SyncActions {
        let mut next = SyncActions::default();
        self.containers.iter_mut().for_each(|record| {
            record.observe_exit();
            match record.report_back_off(now) {
                Ok(message) => {
                    next.actions.push(SyncAction::Note(EventType::Normal, reasons::BACK_OFF, message));
                    next.warn(reasons::FAILED, format!("Error: {}", pull_reasons::BACK_OFF));
                }
                Err(later) => next.requeue(later),
            }
        });
        self.decide_termination(work, asked, now, &mut next);
        if self.ending.is_none() {
            // Probes first: a started sidecar unblocks the next container.
            self.run_probes(work, now, &mut next);
            self.start_containers(work, now, &mut next);
        }
        if self.ending.is_some() {
            self.terminate_containers(work, now, &mut next);
        }
        next
    }

    fn decide_termination(
        &mut self,
        work: &PodRunSpec,
        asked: &SyncInput,
        now: Time,
        next: &mut SyncActions,
    ) {
        let end = |why, by| Some(PodTermination { why, by });
        let asked_for = if asked.is_terminal {
            end(TerminationCause::Over, now)
        } else if let Some(by) = asked.delete_by {
            end(TerminationCause::Deleted, by)
        } else {
            asked.shutdown_by.and_then(|by| end(TerminationCause::Shutdown, by))
        };
        match (&mut self.ending, asked_for) {
            // The first cause is kept; the deadline can only become shorter.
            (Some(known), Some(new)) => known.by = known.by.min(new.by),
            (ending @ None, Some(new)) => *ending = Some(new),
            (Some(_), None) => {}
            (None, None) => {
                let Some(deadline) = work.deadline.map(|length| asked.since + length) else { return };
                match now >= deadline {
                    true => self.ending = end(TerminationCause::Deadline, now + work.grace),
                    false => next.requeue(Some(deadline)),
                }
            }
        }
    }

    fn start_containers(&mut self, work: &PodRunSpec, now: Time, next: &mut SyncActions) {
        if !self.initialized && !self.run_init_containers(work, now, next) {
            return;
        }
        self.initialized = true;
        let mut main_containers =
            work.containers.iter().zip(&self.containers).filter(|(spec, _)| spec.role == ContainerRole::Main);
        // Checked first: after a crash, a sidecar that was stopped at completion must not be restarted.
        if main_containers.all(|(spec, record)| record.is_finished(spec)) {
            self.ending = Some(PodTermination { why: TerminationCause::Done, by: now + work.grace });
            return;
        }
        for (at, spec) in work.containers.iter().enumerate() {
            if spec.role != ContainerRole::Init && !self.containers[at].is_finished(spec) {
                self.start_if_due(at, now, next);
            }
        }
    }

    /// Runs the init containers in order; returns whether all have completed.
    fn run_init_containers(&mut self, work: &PodRunSpec, now: Time, next: &mut SyncActions) -> bool {
        for (at, spec) in work.containers.iter().enumerate() {
            let record = &self.containers[at];
            let passed = match spec.role {
                ContainerRole::Main => true,
                ContainerRole::Sidecar => record.running_since().is_some() && record.started,
                ContainerRole::Init => record.exit_record().is_some_and(|end| end.code == 0),
            };
            if passed {
                continue;
            }
            if spec.role == ContainerRole::Init && record.is_finished(spec) {
                self.ending =
                    Some(PodTermination { why: TerminationCause::InitFailed, by: now + work.grace });
            } else {
                self.start_if_due(at, now, next);
            }
            return false;
        }
        true
    }

    fn start_if_due(&self, at: usize, now: Time, next: &mut SyncActions) {
        let record = &self.containers[at];
        match record.next_start_at() {
            _ if record.is_active() => {}
            Some(later) if later > now => next.requeue(Some(later)),
            _ => next.actions.push(SyncAction::Start(at, record.attempt.map_or(0, |attempt| attempt + 1))),
        }
    }

    /// Runs postStart hooks and probes of running containers.
    fn run_probes(&mut self, work: &PodRunSpec, now: Time, next: &mut SyncActions) {
        for (at, spec) in work.containers.iter().enumerate() {
            let record = &mut self.containers[at];
            let Some(since) = record.running_since() else { continue };
            if record.stopping.is_some() {
                stop(at, record, spec, now, next);
                continue;
            }
            if spec.post_start.is_some() && record.post_start == HookState::Pending {
                record.post_start = HookState::Running;
                next.actions.push(SyncAction::Check(at, ContainerCheck::PostStart));
            }
            if spec.post_start.is_some() && record.post_start != HookState::Done {
                continue;
            }
            // Liveness and readiness probes wait for the startup probe.
            record.started |= spec.startup.is_none();
            let probes = match record.started {
                false => {
                    [(ContainerCheck::Startup, &spec.startup, &mut record.startup)].into_iter().collect()
                }
                true => vec![
                    (ContainerCheck::Liveness, &spec.liveness, &mut record.liveness),
                    (ContainerCheck::Readiness, &spec.readiness, &mut record.readiness),
                ],
            };
            for (what, probe, health) in probes {
                let Some(probe) = probe else { continue };
                match health.look(probe, since, now) {
                    Ok(()) => next.actions.push(SyncAction::Check(at, what)),
                    Err(later) => next.requeue(later),
                }
            }
            record.ready = record.started && (spec.readiness.is_none() || record.ready);
        }
    }

    fn terminate_containers(&mut self, work: &PodRunSpec, now: Time, next: &mut SyncActions) {
        let by = self.ending.as_ref().map_or(now, |ending| ending.by);
        let up = |it: &&(usize, &ContainerRunSpec)| self.containers[it.0].is_active();
        let all: Vec<(usize, &ContainerRunSpec)> = work.containers.iter().enumerate().collect();
        let (sidecars, others): (Vec<_>, Vec<_>) =
            all.iter().filter(up).partition(|(_, spec)| spec.role == ContainerRole::Sidecar);
        let now_stopping: Vec<_> = match (others.is_empty(), now >= by) {
            (false, false) => others,
            // Sidecars stop one at a time, the last started first.
            (true, false) => sidecars.into_iter().rev().take(1).collect(),
            // The grace period is over: everything that is left is killed at once.
            (_, true) => others.into_iter().chain(sidecars).collect(),
        };
        for (at, spec) in now_stopping {
            let record = &mut self.containers[at];
            let known = record.stopping.get_or_insert_with(|| {
                next.actions.push(killing_event(spec));
                ContainerTermination {
                    kill_at: by,
                    hook: HookState::Pending,
                    signalled: false,
                    killed: false,
                }
            });
            known.kill_at = known.kill_at.min(by);
            stop(at, record, spec, now, next);
        }
    }

    /// Records the start of a run.
    pub fn start_run(&mut self, at: usize, attempt: u32) {
        self.containers[at].start_run(attempt);
    }

    /// Records that a container cannot be started.
    pub fn set_start_error(&mut self, at: usize, trouble: StartError) {
        self.containers[at].trouble = Some(trouble);
    }

    /// Retries failed starts at once: an object they depend on has changed.
    pub fn retry_start_errors(&mut self, now: Time) {
        for trouble in self.containers.iter_mut().filter_map(|record| record.trouble.as_mut()) {
            trouble.again = now;
        }
    }

    /// Records the result of a probe or hook of the current run.
    pub fn record_check(
        &mut self,
        work: &PodRunSpec,
        at: usize,
        what: ContainerCheck,
        found: Result<(), String>,
        now: Time,
    ) -> SyncActions {
        let (spec, record) = (&work.containers[at], &mut self.containers[at]);
        let mut next = SyncActions::default();
        match what {
            ContainerCheck::PreStop => {
                if let Some(stopping) = &mut record.stopping {
                    stopping.hook = HookState::Done;
                }
                if let Err(why) = found {
                    next.warn(reasons::FAILED_PRE_STOP, hook_failed("PreStopHook", &why));
                }
            }
            ContainerCheck::PostStart => {
                record.post_start = HookState::Done;
                if let Err(why) = found {
                    next.warn(reasons::FAILED_POST_START, hook_failed("PostStartHook", &why));
                    terminate_unhealthy(record, spec, now + work.grace, &mut next, "failed postStart hook");
                }
            }
            ContainerCheck::Startup | ContainerCheck::Liveness | ContainerCheck::Readiness => {
                record_probe(record, spec, what, found, work.grace, now, &mut next);
            }
        }
        next
    }
}

fn hook_failed(hook: &str, why: &str) -> String {
    format!("{hook} failed: {why}")
}

fn killing_event(spec: &ContainerRunSpec) -> SyncAction {
    SyncAction::Note(EventType::Normal, reasons::KILLING, format!("Stopping container {}", spec.name))
}

/// One step of a container termination: preStop hook, stop signal, SIGKILL.
fn stop(at: usize, record: &mut ContainerRecord, spec: &ContainerRunSpec, now: Time, next: &mut SyncActions) {
    let running = record.running_since().is_some();
    let Some(stopping) = &mut record.stopping else { return };
    if stopping.killed {
        return;
    }
    if now >= stopping.kill_at {
        stopping.killed = true;
        next.actions.push(SyncAction::Kill(at));
        return;
    }
    next.requeue(Some(stopping.kill_at));
    // A container that is still starting has no process to signal; it is signalled once it runs.
    if !running || stopping.signalled {
        return;
    }
    if spec.pre_stop.is_some() && stopping.hook == HookState::Pending {
        stopping.hook = HookState::Running;
        next.actions.push(SyncAction::Check(at, ContainerCheck::PreStop));
    }
    if spec.pre_stop.is_none() || stopping.hook == HookState::Done {
        stopping.signalled = true;
        if spec.pre_stop.is_some() {
            stopping.kill_at = stopping.kill_at.max(now + SIGNAL_GRACE_MIN);
        }
        next.actions.push(SyncAction::Signal(at, spec.stop_signal));
    }
}

/// Terminates an unhealthy container; its restart policy decides what follows.
fn terminate_unhealthy(
    record: &mut ContainerRecord,
    spec: &ContainerRunSpec,
    kill_at: Time,
    next: &mut SyncActions,
    why: &str,
) {
    if record.stopping.is_some() || !record.is_active() {
        return;
    }
    let tail = if spec.restarts_after(1) { ", will be restarted" } else { "" };
    let message = format!("Container {} {why}{tail}", spec.name);
    next.actions.push(SyncAction::Note(EventType::Normal, reasons::KILLING, message));
    record.stopping =
        Some(ContainerTermination { kill_at, hook: HookState::Pending, signalled: false, killed: false });
}

fn record_probe(
    record: &mut ContainerRecord,
    spec: &ContainerRunSpec,
    what: ContainerCheck,
    found: Result<(), String>,
    grace: Duration,
    now: Time,
    next: &mut SyncActions,
) {
    let (probe, health, word): (&Option<Probe>, _, _) = match what {
        ContainerCheck::Startup => (&spec.startup, &mut record.startup, "Startup"),
        ContainerCheck::Liveness => (&spec.liveness, &mut record.liveness, "Liveness"),
        _ => (&spec.readiness, &mut record.readiness, "Readiness"),
    };
    let Some(probe) = probe else { return };
    let verdict = health.record_result(probe, found.is_ok());
    if let Err(why) = found {
        next.warn(reasons::UNHEALTHY, format!("{word} probe failed: {why}"));
    }
    match (what, verdict) {
        (ContainerCheck::Startup, Some(true)) => record.started = true,
        (ContainerCheck::Readiness, Some(ready)) => record.ready = ready,
        (ContainerCheck::Startup | ContainerCheck::Liveness, Some(false)) => {
            let why = format!("failed {} probe", word.to_lowercase());
            terminate_unhealthy(record, spec, now + probe.grace.unwrap_or(grace), next, &why);
        }
        _ => {}
    }
}

/// The handler of a probe or hook, and its timeout.
#[must_use]
pub fn check_of(spec: &ContainerRunSpec, what: ContainerCheck) -> Option<(&ProbeHandler, Duration)> {
    let (probe, hook) = match what {
        ContainerCheck::Startup => (&spec.startup, &None),
        ContainerCheck::Liveness => (&spec.liveness, &None),
        ContainerCheck::Readiness => (&spec.readiness, &None),
        ContainerCheck::PostStart => (&None, &spec.post_start),
        ContainerCheck::PreStop => (&None, &spec.pre_stop),
    };
    let probe = probe.as_ref().map(|it| (&it.check, it.timeout));
    probe.or(hook.as_ref().map(|it| (it, HOOK_MAX)))
}
