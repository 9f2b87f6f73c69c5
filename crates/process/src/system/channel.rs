//! Messages with file descriptors between parent and child over a socket pair; closing one end is EOF for the other.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Maximum file descriptors per message.
const FILES_MAX: usize = 4;

/// A connected socket pair. One end becomes the stdin of a child.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends a message with file descriptors.
///
/// # Errors
/// An I/O error, e.g. the other end is closed.
pub fn send<T: Serialize>(end: impl AsFd, message: &T, files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::Error::other("too many open files for one message"));
    }
    rustix::net::sendmsg(end, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a message; `None` after EOF.
pub fn receive<T: DeserializeOwned>(end: impl AsFd) -> io::Result<Option<(T, Vec<File>)>> {
    let mut bytes = vec![0; MESSAGE_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = rustix::io::retry_on_intr(|| {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        rustix::net::recvmsg(end.as_fd(), &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
    });
    let length = match got {
        Ok(got) => got.bytes,
        Err(rustix::io::Errno::CONNRESET) => 0,
        Err(error) => return Err(error.into()),
    };
    if length == 0 {
        return Ok(None);
    }
    let mut files = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(all) = message {
            files.extend(all.map(File::from));
        }
    }
    Ok(Some((serde_json::from_slice(&bytes[..length])?, files)))
}

/// Polls `wanted`; returns which descriptors are ready or closed. Without `time` it blocks.
pub fn wait(wanted: &[(BorrowedFd<'_>, Interest)], time: Option<Duration>) -> io::Result<Vec<bool>> {
    let mut all: Vec<PollFd<'_>> = wanted
        .iter()
        .map(|(fd, want)| match want {
            Interest::Read => PollFd::from_borrowed_fd(*fd, PollFlags::IN),
            Interest::Write => PollFd::from_borrowed_fd(*fd, PollFlags::OUT),
        })
        .collect();
    let time = time.map(|it| Timespec {
        tv_sec: i64::try_from(it.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(it.subsec_nanos()),
    });
    match rustix::event::poll(&mut all, time.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(all.iter().map(|it| !it.revents().is_empty()).collect())
}

/// Readiness to poll for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    Read,
    Write,
}
