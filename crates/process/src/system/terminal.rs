//! Pseudo terminals.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

/// Opens a pseudo-terminal; returns our end and the program's end.
pub fn open() -> io::Result<(File, File)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = rustix::pty::openpt(flags)?;
    rustix::pty::grantpt(&ours)?;
    rustix::pty::unlockpt(&ours)?;
    let theirs = rustix::pty::ioctl_tiocgptpeer(&ours, flags)?;
    Ok((ours.into(), theirs.into()))
}

/// Makes a terminal the controlling one of this session; the caller must be its leader.
pub fn control(theirs: impl AsFd) -> io::Result<()> {
    Ok(rustix::process::ioctl_tiocsctty(theirs)?)
}

/// Sets the size of a terminal.
pub fn resize(terminal: impl AsFd, columns: u16, rows: u16) {
    let _ = rustix::termios::tcsetwinsize(
        terminal,
        Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 },
    );
}
