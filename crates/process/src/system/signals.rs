//! Receives signals through a signalfd, and sends them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

/// Asks a supervisor to kill its container.
pub const KILL_CONTAINER: i32 = Signal::SIGUSR1 as i32;
/// A child has ended.
pub const CHILD: i32 = Signal::SIGCHLD as i32;
pub const TERM: i32 = Signal::SIGTERM as i32;
pub const KILL: i32 = Signal::SIGKILL as i32;

/// `SI_KERNEL`: sent by the kernel, e.g. by a terminal.
const BY_KERNEL: i32 = 0x80;

/// Origin of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The kernel; a terminal signals its whole foreground group.
    Kernel,
    Process,
}

/// Receives the blocked signals of this process.
pub struct SignalReceiver {
    all: SignalFd,
}

impl SignalReceiver {
    /// Blocks all signals except faults.
    pub fn block() -> io::Result<SignalReceiver> {
        let set = ours();
        set.thread_block()?;
        forget_ignored()?;
        Ok(SignalReceiver {
            all: SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?,
        })
    }

    /// Runs a closure with signals unblocked: spawned children inherit that mask.
    pub fn unblocked<T>(&self, run: impl FnOnce() -> T) -> T {
        let _ = ours().thread_unblock();
        let done = run();
        let _ = ours().thread_block();
        done
    }

    /// The next pending signal.
    #[must_use]
    pub fn next(&self) -> Option<i32> {
        self.next_with_sender().map(|(signal, _)| signal)
    }

    /// The next pending signal and its origin.
    #[must_use]
    pub fn next_with_sender(&self) -> Option<(i32, Sender)> {
        let info = self.all.read_signal().ok()??;
        let sender = if info.ssi_code == BY_KERNEL { Sender::Kernel } else { Sender::Process };
        Some((i32::try_from(info.ssi_signo).ok()?, sender))
    }
}

impl AsFd for SignalReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.all.as_fd()
    }
}

fn ours() -> SigSet {
    let mut set = SigSet::all();
    Signal::iterator().filter(|it| is_fault(*it)).for_each(|fault| set.remove(fault));
    set
}

/// Ignored signals (a shell ignores some for background jobs) stay ignored in all descendants, whereas exec resets
/// handled ones to the default. The handlers have no effect.
fn forget_ignored() -> io::Result<()> {
    let seen = Arc::new(AtomicBool::new(false));
    for signal in
        Signal::iterator().filter(|it| !is_fault(*it) && !matches!(it, Signal::SIGKILL | Signal::SIGSTOP))
    {
        signal_hook::flag::register(signal as i32, Arc::clone(&seen))?;
    }
    Ok(())
}

/// Faults must terminate the process, not be queued.
fn is_fault(signal: Signal) -> bool {
    use Signal::{SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV};
    matches!(signal, SIGABRT | SIGBUS | SIGFPE | SIGILL | SIGSEGV)
}

/// Sends a signal to a child; ignored if it has exited.
pub fn send(pid: i32, signal: i32) {
    if let Ok(signal) = Signal::try_from(signal) {
        let _ = nix::sys::signal::kill(Pid::from_raw(pid), signal);
    }
}
