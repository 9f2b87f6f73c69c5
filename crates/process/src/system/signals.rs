//! Signals as something to wait for, and sending them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

/// Ends everything of a container; sent to its supervisor.
pub const END_ALL: i32 = Signal::SIGUSR1 as i32;
/// A child has ended.
pub const CHILD: i32 = Signal::SIGCHLD as i32;
/// Asks to end.
pub const TERM: i32 = Signal::SIGTERM as i32;
/// Cannot be caught.
pub const KILL: i32 = Signal::SIGKILL as i32;

/// The kernel's word for signals of its own, a terminal's among them (`SI_KERNEL`).
const BY_KERNEL: i32 = 0x80;

/// Who sent a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The kernel: for a terminal everybody in front gets it.
    Kernel,
    /// A process.
    Process,
}

/// All signals of this process, to be read one by one.
pub struct Signals {
    all: SignalFd,
}

impl Signals {
    /// From now on no signal interrupts this process.
    ///
    /// # Errors
    /// What the system said.
    pub fn block() -> io::Result<Signals> {
        let set = ours();
        set.thread_block()?;
        forget_ignored()?;
        Ok(Signals { all: SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)? })
    }

    /// Does something with no signal blocked: children that are started meanwhile begin so.
    pub fn unblocked<T>(&self, run: impl FnOnce() -> T) -> T {
        let _ = ours().thread_unblock();
        let done = run();
        let _ = ours().thread_block();
        done
    }

    /// The next signal that has come.
    #[must_use]
    pub fn next(&self) -> Option<i32> {
        self.next_with_sender().map(|(signal, _)| signal)
    }

    /// The next signal that has come, and who sent it.
    #[must_use]
    pub fn next_with_sender(&self) -> Option<(i32, Sender)> {
        let info = self.all.read_signal().ok()??;
        let sender = if info.ssi_code == BY_KERNEL { Sender::Kernel } else { Sender::Process };
        Some((i32::try_from(info.ssi_signo).ok()?, sender))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.all.as_fd()
    }
}

fn ours() -> SigSet {
    let mut set = SigSet::all();
    Signal::iterator().filter(|it| is_fault(*it)).for_each(|fault| set.remove(fault));
    set
}

/// A signal that our parent ignores (a shell does that for what it runs in the background) would be ignored by all our
/// descendants. One with a handler is not: running another program puts it back to its default. The handlers themselves
/// do nothing that anybody looks at.
fn forget_ignored() -> io::Result<()> {
    let seen = Arc::new(AtomicBool::new(false));
    for signal in
        Signal::iterator().filter(|it| !is_fault(*it) && !matches!(it, Signal::SIGKILL | Signal::SIGSTOP))
    {
        signal_hook::flag::register(signal as i32, Arc::clone(&seen))?;
    }
    Ok(())
}

/// Faults of our own must end us, not be queued.
fn is_fault(signal: Signal) -> bool {
    use Signal::{SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV};
    matches!(signal, SIGABRT | SIGBUS | SIGFPE | SIGILL | SIGSEGV)
}

/// Sends a signal to a child of ours. Gone is fine.
pub fn send(pid: i32, signal: i32) {
    if let Ok(signal) = Signal::try_from(signal) {
        let _ = nix::sys::signal::kill(Pid::from_raw(pid), signal);
    }
}
