//! What can go wrong, how often, and what did.

use muster_tree::Text;

use crate::chance::Dice;
use crate::runner::Fate;

/// Which faults happen, each once in so many chances; 0 is never.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// A reply is lost, the call done.
    pub lost_reply: usize,
    /// A call is lost.
    pub lost_call: usize,
    /// A conflict that was none.
    pub conflict: usize,
    /// A loop crashes; each of its outstanding calls happens or not.
    pub crash: usize,
    /// A watch is cut and lists again.
    pub cut: usize,
    /// A watch says nothing for up to `STALL_SECS_MAX`: what the loop knows of that kind grows stale.
    pub stall: usize,
    /// Some kinds are delivered later than others.
    pub lag: bool,
    /// Calls overtake each other.
    pub disorder: bool,
}

/// The longest that a watch says nothing.
pub const STALL_SECS_MAX: u64 = 5;

/// The faults of a seed are at most twice as frequent, and as rare, as in [`Faults::all`], in so many grades.
const GRADES: usize = 4;

impl Faults {
    /// None.
    #[must_use]
    pub fn none() -> Faults {
        Faults::default()
    }

    /// All, often.
    #[must_use]
    pub fn all() -> Faults {
        Faults {
            lost_reply: 15,
            lost_call: 15,
            conflict: 15,
            crash: 60,
            cut: 40,
            stall: 60,
            lag: true,
            disorder: true,
        }
    }

    /// All, each as often as the seed says.
    #[must_use]
    pub fn of_seed(seed: u64) -> Faults {
        let dice = Dice::new(seed ^ 0xfa17_fa17);
        let grade = |once_in: usize| once_in * 2 * (1 + dice.below(GRADES)) / GRADES;
        let Faults { lost_reply, lost_call, conflict, crash, cut, stall, lag, disorder } = Faults::all();
        Faults {
            lost_reply: grade(lost_reply),
            lost_call: grade(lost_call),
            conflict: grade(conflict),
            crash: grade(crash),
            cut: grade(cut),
            stall: grade(stall),
            lag,
            disorder,
        }
    }
}

/// One blow at exactly one write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strike {
    /// Who writes.
    pub by: Text,
    /// Which of its writes, the first is 1; Events do not count.
    pub write: u64,
    /// What happens.
    pub blow: Blow,
}

/// What can happen to one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blow {
    /// The loop crashes before it.
    CrashBefore,
    /// The loop crashes after it.
    CrashAfter,
    /// The loop crashes, and the write arrives when the next one is already at work.
    CrashLate,
    /// It is done and the reply is lost.
    ReplyLost,
    /// It is lost.
    CallLost,
    /// A conflict that is none.
    Conflict,
    /// It is done, the reply is lost, and all watches say nothing for a while.
    Silence,
}

impl Blow {
    /// All of them, those that matter most first.
    pub const ALL: [Blow; 7] = [
        Blow::CrashBefore,
        Blow::CrashAfter,
        Blow::ReplyLost,
        Blow::Silence,
        Blow::CrashLate,
        Blow::CallLost,
        Blow::Conflict,
    ];
}

impl Strike {
    /// The fate of that write.
    pub(crate) fn fate(&self) -> Fate {
        match self.blow {
            Blow::CrashBefore => Fate::Crash { done: false },
            Blow::CrashAfter => Fate::Crash { done: true },
            Blow::CrashLate => Fate::CrashLate,
            Blow::ReplyLost => Fate::DoneUnheard,
            Blow::CallLost => Fate::Lost,
            Blow::Conflict => Fate::Conflict,
            Blow::Silence => Fate::Silence,
        }
    }
}

/// How often each fault has happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Happened {
    /// Replies lost.
    pub lost_replies: u64,
    /// Calls lost.
    pub lost_calls: u64,
    /// Conflicts that were none.
    pub conflicts: u64,
    /// Crashes of loops.
    pub crashes: u64,
    /// Calls that were done although their loop had crashed.
    pub done_by_the_dead: u64,
    /// Calls that went down with their loop.
    pub gone_with_the_dead: u64,
    /// Watches cut.
    pub cuts: u64,
    /// Watches that said nothing for a while.
    pub stalls: u64,
    /// Kinds delivered later than others.
    pub late: u64,
}

impl Happened {
    /// Each kind of fault in words, with its count.
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

impl std::ops::AddAssign for Happened {
    fn add_assign(&mut self, other: Happened) {
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
