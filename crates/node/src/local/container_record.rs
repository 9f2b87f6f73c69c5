//! The kubelet's record of one container: its current run, restart backoff, probes and termination.

use std::time::Duration;

use muster_api::pod_run_spec::{ContainerRunSpec, Probe};
use muster_api::time::Time;
use muster_process::{ExitReason, ExitRecord, RunState};
use muster_tree::Text;

/// CrashLoopBackOff after the second exit; the first restart is immediate. Each restart doubles it, up to
/// [`BACKOFF_MAX`].
const BACKOFF_FIRST: Duration = Duration::from_secs(10);
/// Maximum of the restart and image pull backoff, as in the kubelet.
const BACKOFF_MAX: Duration = Duration::from_secs(300);
/// A run of this length resets the backoff, as in the kubelet.
const BACKOFF_RESET_AFTER: Duration = Duration::from_secs(600);

/// Backoff before the second image pull; doubles up to [`BACKOFF_MAX`].
const PULL_BACKOFF_FIRST: Duration = Duration::from_secs(10);
/// A failed pull is reported as ErrImagePull for this long, then as ImagePullBackOff.
const PULL_ERROR_REPORTED_FOR: Duration = Duration::from_secs(5);

/// Waiting reasons of containers without an image.
pub mod pull_reasons {
    /// The last pull failed.
    pub const ERROR: &str = "ErrImagePull";
    /// Waiting for the next pull.
    pub const BACK_OFF: &str = "ImagePullBackOff";
    /// `imagePullPolicy: Never`, and the image is absent.
    pub const NEVER: &str = "ErrImageNeverPull";
}

#[derive(Debug, Default)]
pub struct ContainerRecord {
    /// Attempt number of the current run; equals `restartCount`.
    pub attempt: Option<u32>,
    /// Its last observed state.
    pub state: Option<RunState>,
    /// Attempt and exit record of the previous run: `lastState`.
    pub last: Option<(u32, ExitRecord)>,
    /// Why the next run cannot start; reported as the waiting reason.
    pub trouble: Option<StartError>,
    /// The restart backoff (CrashLoopBackOff).
    pub pause: RestartBackoff,
    /// The last failed image pull.
    pub pull: Option<PullFailure>,
    /// Whether the startup probe succeeded, or there is none.
    pub started: bool,
    /// Whether the readiness probe succeeds.
    pub ready: bool,
    pub startup: ProbeWorker,
    pub liveness: ProbeWorker,
    pub readiness: ProbeWorker,
    /// State of the postStart hook.
    pub post_start: HookState,
    /// Set while the container is being terminated.
    pub stopping: Option<ContainerTermination>,
    /// Whether the exit was processed by [`ContainerRecord::observe_exit`].
    pub exit_observed: bool,
}

/// An error that prevents the start of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartError {
    /// Waiting reason in the container status.
    pub reason: Text,
    /// The same in a sentence.
    pub message: Text,
    /// When the start is retried.
    pub again: Time,
}

/// A failed image pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullFailure {
    pub image: Text,
    pub reason: &'static str,
    pub message: Text,
    /// Time of the failure.
    pub since: Time,
    /// Backoff before the next pull.
    pub pause: Duration,
}

impl PullFailure {
    /// Waiting message of ImagePullBackOff.
    #[must_use]
    pub fn back_off(&self) -> String {
        format!("Back-off pulling image {:?}: {}: {}", self.image.as_str(), pull_reasons::ERROR, self.message)
    }
}

/// The restart backoff (CrashLoopBackOff).
#[derive(Debug, Default)]
pub struct RestartBackoff {
    length: Duration,
    until: Option<Time>,
}

/// Progress of a lifecycle hook.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub enum HookState {
    #[default]
    Pending,
    Running,
    Done,
}

/// A container termination in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerTermination {
    /// When SIGKILL is sent.
    pub kill_at: Time,
    pub hook: HookState,
    /// Whether the stop signal was sent.
    pub signalled: bool,
    /// Whether SIGKILL was sent.
    pub killed: bool,
}

/// Schedule and consecutive results of one probe.
#[derive(Debug, Default)]
pub struct ProbeWorker {
    due: Option<Time>,
    busy: bool,
    good: u32,
    bad: u32,
}

impl ProbeWorker {
    /// `Ok` if the probe is due now, else the time when it is.
    pub fn look(&mut self, probe: &Probe, since: Time, now: Time) -> Result<(), Option<Time>> {
        if self.busy {
            return Err(None);
        }
        // `initialDelaySeconds` counts from the start of the command.
        let due = *self.due.get_or_insert(since + probe.delay);
        if now < due {
            return Err(Some(due));
        }
        self.busy = true;
        self.due = Some(now + probe.period);
        Ok(())
    }

    /// Records a result; `Some` when a threshold is reached.
    pub fn record_result(&mut self, probe: &Probe, well: bool) -> Option<bool> {
        self.busy = false;
        // Thresholds count consecutive results.
        (self.good, self.bad) = if well { (self.good + 1, 0) } else { (0, self.bad + 1) };
        match well {
            true => (self.good >= probe.successes).then_some(true),
            false => (self.bad >= probe.failures).then_some(false),
        }
    }
}

impl ContainerRecord {
    /// Whether the current run has not exited.
    #[must_use]
    pub fn is_active(&self) -> bool {
        matches!(self.state, Some(RunState::Starting | RunState::Running { .. }))
    }

    /// Start time of the command, while it runs.
    #[must_use]
    pub fn running_since(&self) -> Option<Time> {
        match self.state {
            Some(RunState::Running { since }) => Some(since),
            _ => None,
        }
    }

    /// Exit record of the current run.
    #[must_use]
    pub fn exit_record(&self) -> Option<&ExitRecord> {
        match &self.state {
            Some(RunState::Exited(end)) => Some(end),
            _ => None,
        }
    }

    /// Whether it exited and its restart policy does not restart it.
    #[must_use]
    pub fn is_finished(&self, work: &ContainerRunSpec) -> bool {
        self.exit_record().is_some_and(|end| !work.restarts_after(i64::from(end.code)))
    }

    /// The earliest time of the next start: the end of the backoff or the retry time of a start error.
    #[must_use]
    pub fn next_start_at(&self) -> Option<Time> {
        self.pause.until.max(self.trouble.as_ref().map(|it| it.again))
    }

    /// Processes the exit of the current run, once; returns whether there was one.
    pub fn observe_exit(&mut self) -> bool {
        let Some(end) = self.exit_record().filter(|_| !self.exit_observed) else {
            return false;
        };
        let until = Time(end.until_micros);
        let ran = end.since_micros.map_or(Duration::ZERO, |since| until.since(Time(since)));
        if ran >= BACKOFF_RESET_AFTER {
            self.pause.length = Duration::ZERO;
        }
        self.pause.until = Some(until + self.pause.length);
        // The backoff starts at the exit, not at the time of this sync.
        (self.started, self.ready, self.stopping, self.exit_observed) = (false, false, None, true);
        true
    }

    /// Starts a new run: the current one becomes the previous one, and the backoff doubles.
    pub fn start_run(&mut self, attempt: u32) {
        if let (Some(before), Some(RunState::Exited(end))) = (self.attempt, self.state.take()) {
            self.last = Some((before, end));
            self.pause.length = match self.pause.length {
                Duration::ZERO => BACKOFF_FIRST,
                longer => (longer * 2).min(BACKOFF_MAX),
            };
        }
        // Probes, hooks and termination start anew; backoff, previous run and pull failure carry over.
        let pause = RestartBackoff { length: self.pause.length, until: None };
        let (last, pull) = (self.last.take(), self.pull.take());
        *self = ContainerRecord { attempt: Some(attempt), last, pause, pull, ..ContainerRecord::default() };
        self.state = Some(RunState::Starting);
    }

    /// Records the observed state. A run that failed to pull its image does not count: the container returns to its
    /// previous state and waits for the pull backoff. Returns whether that happened; the attempt number is free
    /// again.
    pub fn observe_state(&mut self, spec: &ContainerRunSpec, state: Option<RunState>) -> bool {
        self.state = state;
        if self.running_since().is_some() {
            self.pull = None;
        }
        let Some(end) = self.exit_record() else { return false };
        let reason = match end.why {
            ExitReason::ImageNotPulled => pull_reasons::ERROR,
            ExitReason::ImageAbsent => pull_reasons::NEVER,
            _ => return false,
        };
        let (since, message) = (Time(end.until_micros), Text::from(end.message.as_str()));
        // Doubles with each consecutive failure; a run that starts resets it (above).
        let before = self.pull.take().map(|it| (it.pause * 2).min(BACKOFF_MAX));
        let pause = before.unwrap_or(PULL_BACKOFF_FIRST);
        (self.attempt, self.state) = match self.last.take() {
            Some((attempt, end)) => (Some(attempt), Some(RunState::Exited(end))),
            None => (None, None),
        };
        self.exit_observed = true;
        self.pause.until = Some(since + pause);
        self.trouble =
            Some(StartError { reason: reason.into(), message: message.clone(), again: since + pause });
        self.pull = Some(PullFailure { image: spec.image.clone(), reason, message, since, pause });
        true
    }

    /// Switches ErrImagePull to ImagePullBackOff: `Ok` with the event message once the time has come, else the time.
    pub fn report_back_off(&mut self, now: Time) -> Result<String, Option<Time>> {
        let (Some(pull), Some(trouble)) = (&self.pull, &mut self.trouble) else { return Err(None) };
        let at = pull.since + PULL_ERROR_REPORTED_FOR;
        match trouble.reason == pull_reasons::ERROR {
            true if now >= at => {
                (trouble.reason, trouble.message) = (pull_reasons::BACK_OFF.into(), pull.back_off().into());
                Ok(format!("Back-off pulling image {:?}", pull.image.as_str()))
            }
            true => Err(Some(at)),
            false => Err(None),
        }
    }

    /// Length of the current restart backoff.
    #[must_use]
    pub fn backoff_length(&self) -> Duration {
        self.pause.length
    }
}
