//! Generates the pod status, after the kubelet's generateAPIPodStatus.

use muster_api::consts::reasons;
use muster_api::meta;
use muster_api::paths::{container_status as status_path, pod as pod_path, terminated as end_path};
use muster_api::pod::PodPhase;
use muster_api::pod_run_spec::{ContainerRole, ContainerRunSpec, PodRunSpec};
use muster_api::pod_status::{
    ContainerState, ContainerStatusReport, DEADLINE_MESSAGE, PodStatusReport, TerminatedState,
};
use muster_api::time::Time;
use muster_process::{ExitReason, ExitRecord, RunState};
use muster_tree::{Text, Tree, tree};

use super::container_record::{ContainerRecord, HookState, pull_reasons};
use super::pod_lifecycle::{PodLifecycle, TerminationCause};

/// Exit code of a container with an unobserved exit.
const CODE_UNKNOWN: i64 = 137;
const SHUTDOWN: &str = "Pod was terminated in response to imminent node shutdown.";
const NOT_EPHEMERAL: &str =
    "ephemeral containers are not run by this node: use `kubectl exec`, or `kubectl debug --copy-to`";
const NOT_FOUND: &str = "The container could not be located when the pod was terminated";

/// The status of a pod.
#[must_use]
pub fn report(pod: &Tree, work: &PodRunSpec, life: &PodLifecycle, now: Time) -> PodStatusReport {
    let over = life.is_terminated();
    let phase = match over {
        true => life.terminal_phase(work),
        false => phase(work, life),
    };
    let all = work.containers.iter().zip(&life.containers);
    let status = all.map(|(spec, record)| (spec.role, container(pod, spec, record, work, life, now)));
    let (mains, inits): (Vec<_>, Vec<_>) = status.partition(|(role, _)| *role == ContainerRole::Main);
    let why = life.ending.as_ref().map(|ending| ending.why);
    let (reason, message) = match why {
        Some(TerminationCause::Deadline) if over => (reasons::DEADLINE_EXCEEDED, DEADLINE_MESSAGE),
        Some(TerminationCause::Shutdown) if over && phase == PodPhase::Failed => {
            (reasons::TERMINATED, SHUTDOWN)
        }
        _ => ("", ""),
    };
    let disruption = (why == Some(TerminationCause::Shutdown) && phase != PodPhase::Succeeded)
        .then(|| (reasons::TERMINATION_BY_KUBELET.into(), SHUTDOWN.into()));
    PodStatusReport {
        phase,
        reason: reason.into(),
        message: message.into(),
        sandbox: !over && life.containers.iter().any(|record| record.attempt.is_some()),
        inits: inits.into_iter().map(|(_, status)| status).collect(),
        containers: mains.into_iter().map(|(_, status)| status).collect(),
        gates: work.gates.clone(),
        disruption,
    }
}

/// Statuses of ephemeral containers: they are not supported, and each reports that with an alternative.
#[must_use]
pub fn ephemeral(pod: &Tree) -> Option<Tree> {
    let all = pod.items_at(&["spec", "ephemeralContainers"]);
    let status = |it: &Tree| {
        tree!({"name": it.text_at(&["name"]), "image": it.text_at(&["image"]), "imageID": "", "ready": false,
            "restartCount": 0, "state": {"waiting": {
                "reason": reasons::CREATE_CONTAINER_CONFIG, "message": NOT_EPHEMERAL}}})
    };
    (!all.is_empty()).then(|| Tree::list(all.iter().map(status)))
}

/// Pending until every main container has run once.
fn phase(work: &PodRunSpec, life: &PodLifecycle) -> PodPhase {
    let has_run = |record: &ContainerRecord| match record.state {
        None => false,
        Some(RunState::Starting) => record.last.is_some(),
        Some(_) => true,
    };
    let mut mains =
        work.containers.iter().zip(&life.containers).filter(|(spec, _)| spec.role == ContainerRole::Main);
    match mains.all(|(_, record)| has_run(record)) {
        true => PodPhase::Running,
        false => PodPhase::Pending,
    }
}

fn container(
    pod: &Tree,
    spec: &ContainerRunSpec,
    record: &ContainerRecord,
    work: &PodRunSpec,
    life: &PodLifecycle,
    now: Time,
) -> ContainerStatusReport {
    let id = |attempt: u32| Text::from(format!("process://{}/{}/{attempt}", meta::uid(pod), spec.name));
    let own = record.attempt.map(id).unwrap_or_default();
    let last = record.last.as_ref().map(|(attempt, end)| terminated(&id(*attempt), end));
    let (state, last) = match &record.state {
        None => (not_started(spec, record, work, life), last),
        // While a pull is retried, the kubelet still reports the backoff of the previous one.
        Some(RunState::Starting) => {
            match record.pull.as_ref().filter(|it| it.reason == pull_reasons::ERROR) {
                Some(pull) => (waiting(pull_reasons::BACK_OFF, &pull.back_off()), last),
                None => (waiting(reasons::CONTAINER_CREATING, ""), last),
            }
        }
        Some(RunState::Running { since }) => (ContainerState::Running(*since), last),
        Some(RunState::Exited(end)) => match will_restart(spec, record, life) {
            false => (ContainerState::Terminated(terminated(&own, end)), last),
            true => (between_runs(pod, spec, record, now), Some(terminated(&own, end))),
        },
    };
    let passed = record.exit_record().is_some_and(|end| end.code == 0);
    // As in the kubelet, an init container is ready once it has completed.
    let ready = if spec.role == ContainerRole::Init {
        passed
    } else {
        record.running_since().is_some() && record.ready
    };
    let started = record.running_since().is_some() && record.started;
    ContainerStatusReport {
        name: spec.name.clone(),
        image: spec.image.clone(),
        id: own,
        ready,
        started: Some(started),
        // Attempt numbers start at 0, so they equal the restart count.
        restarts: i64::from(record.attempt.unwrap_or(0)),
        state,
        last,
        initialized: match spec.role {
            ContainerRole::Init => passed,
            ContainerRole::Sidecar => started || life.initialized,
            ContainerRole::Main => true,
        },
        sidecar: spec.role == ContainerRole::Sidecar,
    }
}

fn will_restart(spec: &ContainerRunSpec, record: &ContainerRecord, life: &PodLifecycle) -> bool {
    life.ending.is_none() && !record.is_finished(spec)
}

fn waiting(reason: &str, message: &str) -> ContainerState {
    ContainerState::Waiting { reason: reason.into(), message: message.into() }
}

fn not_started(
    spec: &ContainerRunSpec,
    record: &ContainerRecord,
    work: &PodRunSpec,
    life: &PodLifecycle,
) -> ContainerState {
    let why = life.ending.as_ref().map(|ending| ending.why);
    // As in the kubelet, a container that never ran has an unknown status, unless init failed or the deadline
    // expired.
    if life.is_terminated() && !matches!(why, Some(TerminationCause::InitFailed | TerminationCause::Deadline))
    {
        return ContainerState::Terminated(TerminatedState {
            id: Text::new(),
            since: None,
            until: None,
            code: CODE_UNKNOWN,
            signal: None,
            reason: reasons::CONTAINER_STATUS_UNKNOWN.into(),
            message: NOT_FOUND.into(),
        });
    }
    match &record.trouble {
        Some(trouble) => waiting(&trouble.reason, &trouble.message),
        None if work.has_init() && (spec.role != ContainerRole::Main || !life.initialized) => {
            waiting(reasons::POD_INITIALIZING, "")
        }
        None => waiting(reasons::CONTAINER_CREATING, ""),
    }
}

fn between_runs(pod: &Tree, spec: &ContainerRunSpec, record: &ContainerRecord, now: Time) -> ContainerState {
    if let Some(trouble) = record.trouble.as_ref() {
        return waiting(&trouble.reason, &trouble.message);
    }
    if record.next_start_at().is_none_or(|at| at <= now) {
        return waiting(reasons::CONTAINER_CREATING, "");
    }
    waiting(reasons::CRASH_LOOP, &crash_loop(pod, spec, record))
}

/// Waiting message of CrashLoopBackOff.
#[must_use]
pub fn crash_loop(pod: &Tree, spec: &ContainerRunSpec, record: &ContainerRecord) -> String {
    let length = record.backoff_length().as_secs();
    let length = match (length / 60, length % 60) {
        (0, secs) => format!("{secs}s"),
        (minutes, secs) => format!("{minutes}m{secs}s"),
    };
    let (name, namespace, uid) = (meta::name(pod), meta::namespace(pod), meta::uid(pod));
    format!("back-off {length} restarting failed container={} pod={name}_{namespace}({uid})", spec.name)
}

/// Restores a container from the pod status when its run directory is lost.
pub fn recall(pod: &Tree, spec: &ContainerRunSpec, record: &mut ContainerRecord) {
    let statuses =
        pod.items_at(pod_path::INIT_STATUSES).iter().chain(pod.items_at(pod_path::CONTAINER_STATUSES));
    let Some(status) = statuses.into_iter().find(|it| it.str_at(status_path::NAME) == spec.name.as_str())
    else {
        return;
    };
    let restarts = status.int_at(status_path::RESTARTS).and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    let running = Time::of(status.at(status_path::STARTED));
    if let Some(attempt) = record.attempt {
        // Readiness of an earlier run does not apply to this one.
        if attempt == restarts && running.is_some() {
            record.started = status.bool_at(&["started"]) == Some(true);
            record.ready = status.bool_at(&["ready"]) == Some(true);
            if record.started {
                record.post_start = HookState::Done;
            }
        }
        return;
    }
    let end = match (status.at(status_path::TERMINATED), running, status.at(status_path::LAST_END)) {
        (Some(status), ..) | (None, None, Some(status)) => ended(status),
        (None, Some(since), _) => exit_unknown(since),
        (None, None, None) => return,
    };
    record.start_run(restarts);
    record.state = Some(RunState::Exited(end));
}

fn ended(status: &Tree) -> ExitRecord {
    let micros = |at: &[&str]| Time::of(status.at(at)).map(|time| time.0);
    ExitRecord {
        since_micros: micros(end_path::STARTED),
        until_micros: micros(end_path::FINISHED).unwrap_or_default(),
        code: status.int_at(end_path::CODE).and_then(|code| i32::try_from(code).ok()).unwrap_or(0),
        signal: None,
        why: ExitReason::Exited,
        message: status.str_at(end_path::MESSAGE).to_owned(),
    }
}

fn exit_unknown(since: Time) -> ExitRecord {
    ExitRecord {
        since_micros: Some(since.0),
        until_micros: since.0,
        code: 137,
        signal: None,
        why: ExitReason::Lost,
        message: "Nobody knows how the container ended: the node has no record of it".to_owned(),
    }
}

fn terminated(id: &Text, end: &ExitRecord) -> TerminatedState {
    let reason = match (end.why, end.code) {
        (ExitReason::OutOfMemory, _) => reasons::OOM_KILLED,
        (ExitReason::NotStarted | ExitReason::ImageNotPulled | ExitReason::ImageAbsent, _) => {
            reasons::START_ERROR
        }
        (ExitReason::Lost, _) => reasons::CONTAINER_STATUS_UNKNOWN,
        (ExitReason::Exited, 0) => reasons::CONTAINER_COMPLETED,
        (ExitReason::Exited | ExitReason::TooManyProcesses, _) => reasons::CONTAINER_ERROR,
    };
    TerminatedState {
        id: id.clone(),
        since: end.since_micros.map(Time),
        until: Some(Time(end.until_micros)),
        code: i64::from(end.code),
        // Kubelets leave `signal` unset; an exit code above 128 implies it.
        signal: None,
        reason: reason.into(),
        message: Text::from(end.message.as_str()),
    }
}
