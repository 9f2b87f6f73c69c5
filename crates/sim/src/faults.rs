//! Fault injection: which faults occur, how often, and how often they did.

use muster_tree::Text;

use crate::rng::SeededRng;
use crate::runner::Fate;

/// Fault probabilities: each occurs once in this many opportunities; 0 is never.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// The request is executed and its reply is lost.
    pub lost_reply: usize,
    /// The request is lost.
    pub lost_request: usize,
    /// A conflict without a concurrent write.
    pub conflict: usize,
    /// A loop crashes; each of its outstanding requests is executed or not.
    pub crash: usize,
    /// A watch is cut and relists.
    pub watch_cut: usize,
    /// A watch delivers nothing for up to `STALL_SECS_MAX` seconds: the cache of that kind is stale.
    pub watch_stall: usize,
    /// Kinds are delivered at different times.
    pub delivery_lag: bool,
    pub reorder: bool,
}

/// The longest stall of a watch, in seconds.
pub const STALL_SECS_MAX: u64 = 5;

/// Fault rates of a seed vary in this many grades, up to half the frequency of [`Faults::all`] and twice as frequent.
const GRADES: usize = 4;

impl Faults {
    #[must_use]
    pub fn none() -> Faults {
        Faults::default()
    }

    #[must_use]
    pub fn all() -> Faults {
        Faults {
            lost_reply: 15,
            lost_request: 15,
            conflict: 15,
            crash: 60,
            watch_cut: 40,
            watch_stall: 60,
            delivery_lag: true,
            reorder: true,
        }
    }

    /// All faults, with rates that depend on the seed.
    #[must_use]
    pub fn of_seed(seed: u64) -> Faults {
        let dice = SeededRng::new(seed ^ 0xfa17_fa17);
        let grade = |once_in: usize| once_in * 2 * (1 + dice.below(GRADES)) / GRADES;
        let Faults {
            lost_reply,
            lost_request: lost_call,
            conflict,
            crash,
            watch_cut: cut,
            watch_stall: stall,
            delivery_lag: lag,
            reorder: disorder,
        } = Faults::all();
        Faults {
            lost_reply: grade(lost_reply),
            lost_request: grade(lost_call),
            conflict: grade(conflict),
            crash: grade(crash),
            watch_cut: grade(cut),
            watch_stall: grade(stall),
            delivery_lag: lag,
            reorder: disorder,
        }
    }
}

/// One fault at exactly one write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultInjection {
    pub by: Text,
    /// The ordinal of the write, from 1; Events do not count.
    pub write: u64,
    pub blow: InjectedFault,
}

/// A fault at one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InjectedFault {
    /// The loop crashes before the write.
    CrashBefore,
    /// The loop crashes after the write.
    CrashAfter,
    /// The loop crashes, and the write is executed after its successor started.
    CrashInFlight,
    /// The write is executed and its reply is lost.
    ReplyLost,
    RequestLost,
    /// A conflict without a concurrent write.
    Conflict,
    /// The write is executed, its reply is lost, and all watches stall: the loop cannot observe its own write.
    WatchStall,
}

impl InjectedFault {
    /// All of them, the most revealing first.
    pub const ALL: [InjectedFault; 7] = [
        InjectedFault::CrashBefore,
        InjectedFault::CrashAfter,
        InjectedFault::ReplyLost,
        InjectedFault::WatchStall,
        InjectedFault::CrashInFlight,
        InjectedFault::RequestLost,
        InjectedFault::Conflict,
    ];
}

impl FaultInjection {
    pub(crate) fn fate(&self) -> Fate {
        match self.blow {
            InjectedFault::CrashBefore => Fate::Crash { done: false },
            InjectedFault::CrashAfter => Fate::Crash { done: true },
            InjectedFault::CrashInFlight => Fate::CrashInFlight,
            InjectedFault::ReplyLost => Fate::ReplyLost,
            InjectedFault::RequestLost => Fate::Lost,
            InjectedFault::Conflict => Fate::Conflict,
            InjectedFault::WatchStall => Fate::WatchStall,
        }
    }
}

/// The number of injected faults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultCounts {
    pub lost_replies: u64,
    pub lost_calls: u64,
    pub conflicts: u64,
    pub crashes: u64,
    /// Requests executed although their loop had crashed.
    pub done_by_the_dead: u64,
    /// Requests lost with their loop.
    pub gone_with_the_dead: u64,
    pub cuts: u64,
    pub stalls: u64,
    pub late: u64,
}

impl FaultCounts {
    /// The label and count of each fault.
    #[must_use]
    pub fn rows(&self) -> [(&'static str, u64); 9] {
        [
            ("crashes of a loop", self.crashes),
            ("  calls done all the same", self.done_by_the_dead),
            ("  calls that went down with it", self.gone_with_the_dead),
            ("replies lost", self.lost_replies),
            ("calls lost", self.lost_calls),
            ("conflicts that were none", self.conflicts),
            ("watches cut", self.cuts),
            ("watches that stalled", self.stalls),
            ("kinds delivered late", self.late),
        ]
    }
}

impl std::ops::AddAssign for FaultCounts {
    fn add_assign(&mut self, other: FaultCounts) {
        self.lost_replies += other.lost_replies;
        self.lost_calls += other.lost_calls;
        self.conflicts += other.conflicts;
        self.crashes += other.crashes;
        self.done_by_the_dead += other.done_by_the_dead;
        self.gone_with_the_dead += other.gone_with_the_dead;
        self.cuts += other.cuts;
        self.stalls += other.stalls;
        self.late += other.late;
    }
}
