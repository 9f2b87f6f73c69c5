//! One container as the node remembers it: its newest run, how it is watched and how it is stopped.

use std::time::Duration;

use muster_api::pod_work::{ContainerWork, Probe};
use muster_api::time::Time;
use muster_process::{Ended, State, Why};
use muster_tree::Text;

/// The first pause before a restart; the very first restart has none.
const PAUSE_FIRST: Duration = Duration::from_secs(10);
/// The longest pause before a restart.
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// A run this long forgives earlier failures.
const PAUSE_FORGIVEN_AFTER: Duration = Duration::from_secs(600);

/// The first pause before an image is pulled again; each further one is twice as long, up to [`PAUSE_MAX`].
const PULL_PAUSE_FIRST: Duration = Duration::from_secs(10);
/// A failed pull is reported as ErrImagePull for this long, then as ImagePullBackOff.
const PULL_ERROR_REPORTED_FOR: Duration = Duration::from_secs(5);

/// Reasons of containers whose image is not there.
pub mod pulls {
    /// The last pull failed.
    pub const ERROR: &str = "ErrImagePull";
    /// It waits before the next pull.
    pub const BACK_OFF: &str = "ImagePullBackOff";
    /// It may not be pulled.
    pub const NEVER: &str = "ErrImageNeverPull";
}

/// One container.
#[derive(Debug, Default)]
pub struct Being {
    /// The newest run that was begun.
    pub attempt: Option<u32>,
    /// How that run goes.
    pub state: Option<State>,
    /// How the run before it ended.
    pub last: Option<(u32, Ended)>,
    /// Why the next run cannot begin.
    pub trouble: Option<Trouble>,
    /// The pause before the next run.
    pub pause: Pause,
    /// How its image could not be pulled.
    pub pull: Option<PullFailure>,
    /// Whether its startup probe has succeeded, or it has none.
    pub started: bool,
    /// Whether its readiness probe succeeds.
    pub ready: bool,
    /// The startup probe.
    pub startup: Health,
    /// The liveness probe.
    pub liveness: Health,
    /// The readiness probe.
    pub readiness: Health,
    /// What is done once it runs.
    pub post_start: Hook,
    /// How it is being stopped.
    pub stopping: Option<Stopping>,
    /// Whether the end of this run was taken in.
    pub noticed: bool,
}

/// Why a run cannot begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// The reason that its state shows.
    pub reason: Text,
    /// The same in a sentence.
    pub message: Text,
    /// When it is tried again.
    pub again: Time,
}

/// An image that could not be pulled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullFailure {
    /// The image.
    pub image: Text,
    /// [`pulls::ERROR`] or [`pulls::NEVER`].
    pub reason: &'static str,
    /// What was said.
    pub message: Text,
    /// When it failed last.
    pub since: Time,
    /// The pause before the next pull.
    pub pause: Duration,
}

impl PullFailure {
    /// The sentence of a container that waits before the next pull.
    #[must_use]
    pub fn back_off(&self) -> String {
        format!("Back-off pulling image {:?}: {}: {}", self.image.as_str(), pulls::ERROR, self.message)
    }
}

/// The pause before the next run.
#[derive(Debug, Default)]
pub struct Pause {
    length: Duration,
    until: Option<Time>,
}

/// Something that is done once.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub enum Hook {
    /// Not yet.
    #[default]
    Open,
    /// Under way.
    Busy,
    /// Done.
    Done,
}

/// How a container is being stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopping {
    /// When it is ended by force.
    pub kill_at: Time,
    /// What is done before.
    pub hook: Hook,
    /// Whether it was asked to stop.
    pub signalled: bool,
    /// Whether it was ended by force.
    pub killed: bool,
}

/// The record of a probe.
#[derive(Debug, Default)]
pub struct Health {
    due: Option<Time>,
    busy: bool,
    good: u32,
    bad: u32,
}

impl Health {
    /// Whether to look now; else when.
    pub fn look(&mut self, probe: &Probe, since: Time, now: Time) -> Result<(), Option<Time>> {
        if self.busy {
            return Err(None);
        }
        let due = *self.due.get_or_insert(since + probe.delay);
        if now < due {
            return Err(Some(due));
        }
        self.busy = true;
        self.due = Some(now + probe.period);
        Ok(())
    }

    /// Takes in what a look found; `Some` when it decides.
    pub fn heard(&mut self, probe: &Probe, well: bool) -> Option<bool> {
        self.busy = false;
        (self.good, self.bad) = if well { (self.good + 1, 0) } else { (0, self.bad + 1) };
        match well {
            true => (self.good >= probe.successes).then_some(true),
            false => (self.bad >= probe.failures).then_some(false),
        }
    }
}

impl Being {
    /// Whether a run is under way.
    #[must_use]
    pub fn up(&self) -> bool {
        matches!(self.state, Some(State::Starting | State::Running { .. }))
    }

    /// Since when its command runs.
    #[must_use]
    pub fn running(&self) -> Option<Time> {
        match self.state {
            Some(State::Running { since }) => Some(since),
            _ => None,
        }
    }

    /// How its newest run ended.
    #[must_use]
    pub fn end(&self) -> Option<&Ended> {
        match &self.state {
            Some(State::Ended(end)) => Some(end),
            _ => None,
        }
    }

    /// Whether it ended for good.
    #[must_use]
    pub fn done(&self, work: &ContainerWork) -> bool {
        self.end().is_some_and(|end| !work.restarts_after(i64::from(end.code)))
    }

    /// When the next run may begin.
    #[must_use]
    pub fn may_begin_at(&self) -> Option<Time> {
        self.pause.until.max(self.trouble.as_ref().map(|it| it.again))
    }

    /// Takes in the end of a run, once.
    pub fn notice(&mut self) -> bool {
        let Some(end) = self.end().filter(|_| !self.noticed) else {
            return false;
        };
        let until = Time(end.until_micros);
        let ran = end.since_micros.map_or(Duration::ZERO, |since| until.since(Time(since)));
        if ran >= PAUSE_FORGIVEN_AFTER {
            self.pause.length = Duration::ZERO;
        }
        self.pause.until = Some(until + self.pause.length);
        (self.started, self.ready, self.stopping, self.noticed) = (false, false, None, true);
        true
    }

    /// A run was begun.
    pub fn begun(&mut self, attempt: u32) {
        if let (Some(before), Some(State::Ended(end))) = (self.attempt, self.state.take()) {
            self.last = Some((before, end));
            self.pause.length = match self.pause.length {
                Duration::ZERO => PAUSE_FIRST,
                longer => (longer * 2).min(PAUSE_MAX),
            };
        }
        let pause = Pause { length: self.pause.length, until: None };
        let (last, pull) = (self.last.take(), self.pull.take());
        *self = Being { attempt: Some(attempt), last, pause, pull, ..Being::default() };
        self.state = Some(State::Starting);
    }

    /// Takes in how the newest run goes. A run without its image was none: the container is as it was before, and
    /// waits before the next pull. Whether there was such a run; its number is free again.
    pub fn saw(&mut self, one: &ContainerWork, state: Option<State>) -> bool {
        self.state = state;
        if self.running().is_some() {
            self.pull = None;
        }
        let Some(end) = self.end() else { return false };
        let reason = match end.why {
            Why::ImageNotPulled => pulls::ERROR,
            Why::ImageAbsent => pulls::NEVER,
            _ => return false,
        };
        let (since, message) = (Time(end.until_micros), Text::from(end.message.as_str()));
        let before = self.pull.take().map(|it| (it.pause * 2).min(PAUSE_MAX));
        let pause = before.unwrap_or(PULL_PAUSE_FIRST);
        (self.attempt, self.state) = match self.last.take() {
            Some((attempt, end)) => (Some(attempt), Some(State::Ended(end))),
            None => (None, None),
        };
        self.noticed = true;
        self.pause.until = Some(since + pause);
        self.trouble =
            Some(Trouble { reason: reason.into(), message: message.clone(), again: since + pause });
        self.pull = Some(PullFailure { image: one.image.clone(), reason, message, since, pause });
        true
    }

    /// When the reason changes from ErrImagePull to ImagePullBackOff: `Ok` once that time has come, else the time.
    pub fn report_back_off(&mut self, now: Time) -> Result<String, Option<Time>> {
        let (Some(pull), Some(trouble)) = (&self.pull, &mut self.trouble) else { return Err(None) };
        let at = pull.since + PULL_ERROR_REPORTED_FOR;
        match trouble.reason == pulls::ERROR {
            true if now >= at => {
                (trouble.reason, trouble.message) = (pulls::BACK_OFF.into(), pull.back_off().into());
                Ok(format!("Back-off pulling image {:?}", pull.image.as_str()))
            }
            true => Err(Some(at)),
            false => Err(None),
        }
    }

    /// How long the pause before the next run is.
    #[must_use]
    pub fn pause_length(&self) -> Duration {
        self.pause.length
    }
}
