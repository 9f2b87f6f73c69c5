//! What the node tells of a pod: its life in the words of a status.

use muster_api::meta;
use muster_api::paths::{container_status as status_path, pod as pod_path, terminated as end_path};
use muster_api::pod::Phase;
use muster_api::pod_status::{ContainerReport, ContainerState, DEADLINE_MESSAGE, Report, Terminated};
use muster_api::pod_work::{ContainerWork, Role, Work};
use muster_api::time::Time;
use muster_api::words::reasons;
use muster_process::{Ended, State, Why};
use muster_tree::{Text, Tree, tree};

use super::being::{Being, Hook, pulls};
use super::life::{EndWhy, Life};

/// The code of a container that nobody knows the end of.
const CODE_UNKNOWN: i64 = 137;
const SHUTDOWN: &str = "Pod was terminated in response to imminent node shutdown.";
const NOT_EPHEMERAL: &str =
    "ephemeral containers are not run by this node: use `kubectl exec`, or `kubectl debug --copy-to`";
const NOT_FOUND: &str = "The container could not be located when the pod was terminated";

/// What there is to tell.
#[must_use]
pub fn report(pod: &Tree, work: &Work, life: &Life, now: Time) -> Report {
    let over = life.over();
    let phase = match over {
        true => life.verdict(work),
        false => phase(work, life),
    };
    let all = work.containers.iter().zip(&life.beings);
    let told = all.map(|(one, being)| (one.role, container(pod, one, being, work, life, now)));
    let (mains, inits): (Vec<_>, Vec<_>) = told.partition(|(role, _)| *role == Role::Main);
    let why = life.ending.as_ref().map(|ending| ending.why);
    let (reason, message) = match why {
        Some(EndWhy::Deadline) if over => (reasons::DEADLINE_EXCEEDED, DEADLINE_MESSAGE),
        Some(EndWhy::Shutdown) if over && phase == Phase::Failed => (reasons::TERMINATED, SHUTDOWN),
        _ => ("", ""),
    };
    let disruption = (why == Some(EndWhy::Shutdown) && phase != Phase::Succeeded)
        .then(|| (reasons::TERMINATION_BY_KUBELET.into(), SHUTDOWN.into()));
    Report {
        phase,
        reason: reason.into(),
        message: message.into(),
        sandbox: !over && life.beings.iter().any(|being| being.attempt.is_some()),
        inits: inits.into_iter().map(|(_, told)| told).collect(),
        containers: mains.into_iter().map(|(_, told)| told).collect(),
        gates: work.gates.clone(),
        disruption,
    }
}

/// Ephemeral containers are not run by this node: each says so, and what to do instead.
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

/// Pending until every main container has run.
fn phase(work: &Work, life: &Life) -> Phase {
    let has_run = |being: &Being| match being.state {
        None => false,
        Some(State::Starting) => being.last.is_some(),
        Some(_) => true,
    };
    let mut mains = work.containers.iter().zip(&life.beings).filter(|(one, _)| one.role == Role::Main);
    match mains.all(|(_, being)| has_run(being)) {
        true => Phase::Running,
        false => Phase::Pending,
    }
}

fn container(
    pod: &Tree,
    one: &ContainerWork,
    being: &Being,
    work: &Work,
    life: &Life,
    now: Time,
) -> ContainerReport {
    let id = |attempt: u32| Text::from(format!("process://{}/{}/{attempt}", meta::uid(pod), one.name));
    let own = being.attempt.map(id).unwrap_or_default();
    let last = being.last.as_ref().map(|(attempt, end)| terminated(&id(*attempt), end));
    let (state, last) = match &being.state {
        None => (not_begun(one, being, work, life), last),
        // The pull that is under way may fail as the one before did.
        Some(State::Starting) => match being.pull.as_ref().filter(|it| it.reason == pulls::ERROR) {
            Some(pull) => (waiting(pulls::BACK_OFF, &pull.back_off()), last),
            None => (waiting(reasons::CONTAINER_CREATING, ""), last),
        },
        Some(State::Running { since }) => (ContainerState::Running(*since), last),
        Some(State::Ended(end)) => match will_come_back(one, being, life) {
            false => (ContainerState::Ended(terminated(&own, end)), last),
            true => (between_runs(pod, one, being, now), Some(terminated(&own, end))),
        },
    };
    let passed = being.end().is_some_and(|end| end.code == 0);
    let ready = if one.role == Role::Init { passed } else { being.running().is_some() && being.ready };
    let started = being.running().is_some() && being.started;
    ContainerReport {
        name: one.name.clone(),
        image: one.image.clone(),
        id: own,
        ready,
        started: Some(started),
        restarts: i64::from(being.attempt.unwrap_or(0)),
        state,
        last,
        initialized: match one.role {
            Role::Init => passed,
            Role::Sidecar => started || life.initialized,
            Role::Main => true,
        },
        sidecar: one.role == Role::Sidecar,
    }
}

fn will_come_back(one: &ContainerWork, being: &Being, life: &Life) -> bool {
    life.ending.is_none() && !being.done(one)
}

fn waiting(reason: &str, message: &str) -> ContainerState {
    ContainerState::Waiting { reason: reason.into(), message: message.into() }
}

fn not_begun(one: &ContainerWork, being: &Being, work: &Work, life: &Life) -> ContainerState {
    let why = life.ending.as_ref().map(|ending| ending.why);
    if life.over() && !matches!(why, Some(EndWhy::InitFailed | EndWhy::Deadline)) {
        return ContainerState::Ended(Terminated {
            id: Text::new(),
            since: None,
            until: None,
            code: CODE_UNKNOWN,
            signal: None,
            reason: reasons::CONTAINER_STATUS_UNKNOWN.into(),
            message: NOT_FOUND.into(),
        });
    }
    match &being.trouble {
        Some(trouble) => waiting(&trouble.reason, &trouble.message),
        None if work.has_init() && (one.role != Role::Main || !life.initialized) => {
            waiting(reasons::POD_INITIALIZING, "")
        }
        None => waiting(reasons::CONTAINER_CREATING, ""),
    }
}

fn between_runs(pod: &Tree, one: &ContainerWork, being: &Being, now: Time) -> ContainerState {
    if let Some(trouble) = being.trouble.as_ref() {
        return waiting(&trouble.reason, &trouble.message);
    }
    if being.may_begin_at().is_none_or(|at| at <= now) {
        return waiting(reasons::CONTAINER_CREATING, "");
    }
    waiting(reasons::CRASH_LOOP, &crash_loop(pod, one, being))
}

/// The sentence of a container that waits before it is restarted.
#[must_use]
pub fn crash_loop(pod: &Tree, one: &ContainerWork, being: &Being) -> String {
    let length = being.pause_length().as_secs();
    let length = match (length / 60, length % 60) {
        (0, secs) => format!("{secs}s"),
        (minutes, secs) => format!("{minutes}m{secs}s"),
    };
    let (name, namespace, uid) = (meta::name(pod), meta::namespace(pod), meta::uid(pod));
    format!("back-off {length} restarting failed container={} pod={name}_{namespace}({uid})", one.name)
}

/// What the status remembers of a container that the machine does not know: its folders are gone, so it is too.
pub fn recall(pod: &Tree, one: &ContainerWork, being: &mut Being) {
    let statuses =
        pod.items_at(pod_path::INIT_STATUSES).iter().chain(pod.items_at(pod_path::CONTAINER_STATUSES));
    let Some(status) = statuses.into_iter().find(|it| it.str_at(status_path::NAME) == one.name.as_str())
    else {
        return;
    };
    let restarts = status.int_at(status_path::RESTARTS).and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    let running = Time::of(status.at(status_path::STARTED));
    if let Some(attempt) = being.attempt {
        // What is told of an earlier run is not true of this one.
        if attempt == restarts && running.is_some() {
            being.started = status.bool_at(&["started"]) == Some(true);
            being.ready = status.bool_at(&["ready"]) == Some(true);
            if being.started {
                being.post_start = Hook::Done;
            }
        }
        return;
    }
    let end = match (status.at(status_path::TERMINATED), running, status.at(status_path::LAST_END)) {
        (Some(told), ..) | (None, None, Some(told)) => ended(told),
        (None, Some(since), _) => lost(since),
        (None, None, None) => return,
    };
    being.begun(restarts);
    being.state = Some(State::Ended(end));
}

fn ended(told: &Tree) -> Ended {
    let micros = |at: &[&str]| Time::of(told.at(at)).map(|time| time.0);
    Ended {
        since_micros: micros(end_path::STARTED),
        until_micros: micros(end_path::FINISHED).unwrap_or_default(),
        code: told.int_at(end_path::CODE).and_then(|code| i32::try_from(code).ok()).unwrap_or(0),
        signal: None,
        why: Why::Exited,
        message: told.str_at(end_path::MESSAGE).to_owned(),
    }
}

fn lost(since: Time) -> Ended {
    Ended {
        since_micros: Some(since.0),
        until_micros: since.0,
        code: 137,
        signal: None,
        why: Why::Lost,
        message: "Nobody knows how the container ended: the node has no record of it".to_owned(),
    }
}

fn terminated(id: &Text, end: &Ended) -> Terminated {
    let reason = match (end.why, end.code) {
        (Why::OutOfMemory, _) => reasons::OOM_KILLED,
        (Why::NotStarted | Why::ImageNotPulled | Why::ImageAbsent, _) => reasons::START_ERROR,
        (Why::Lost, _) => reasons::CONTAINER_STATUS_UNKNOWN,
        (Why::Exited, 0) => reasons::CONTAINER_COMPLETED,
        (Why::Exited | Why::TooManyProcesses, _) => reasons::CONTAINER_ERROR,
    };
    Terminated {
        id: id.clone(),
        since: end.since_micros.map(Time),
        until: Some(Time(end.until_micros)),
        code: i64::from(end.code),
        // A code above 128 says it already; kubelets leave the number out.
        signal: None,
        reason: reason.into(),
        message: Text::from(end.message.as_str()),
    }
}
