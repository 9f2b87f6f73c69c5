//! The server side of an exec: starts the exec process and talks to it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::exec_process::{ExecReply, ExecRequest};
use crate::run_files::SupervisorConfig;
use crate::runtime::{ExecOptions, ExecProcess, ExecSession};
use crate::subcommands;
use crate::system::channel::{self, Interest};
use crate::system::{signals, terminal};

/// Start timeout of an exec.
const BEGIN_WITHIN: Duration = Duration::from_secs(10);

/// Starts a command in a container.
///
/// # Errors
/// The container is not running, or the command is not found.
pub fn start(
    program: &Path,
    dir: &Path,
    orders: &SupervisorConfig,
    options: &ExecOptions,
) -> Result<ExecSession, String> {
    let said = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    let (ours, theirs) = channel::pair().map_err(said("make a channel"))?;
    let mut ends = StdioEnds::open(options).map_err(said("make pipes"))?;
    // Stdin is the channel; the stdio descriptors of the command are sent over it.
    let child = subcommands::command(program, subcommands::BESIDE, dir, orders)
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(said("start a command beside the container"))?;
    let process = Process { channel: Arc::new(ours), child, terminal: ends.terminal()?, code: None };
    let passed: Vec<BorrowedFd<'_>> = ends.theirs.iter().map(AsFd::as_fd).collect();
    let ask = ExecRequest::Run { argv: options.argv.clone(), tty: options.tty };
    channel::send(&process.channel, &ask, &passed).map_err(said("ask for the command"))?;
    // Close our copies: readers see EOF when the command closes its ends.
    ends.theirs.clear();
    match process.answer(Some(BEGIN_WITHIN)) {
        Ok(Some(ExecReply::Started)) => Ok(ExecSession {
            stdin: ends.stdin,
            stdout: ends.stdout,
            stderr: ends.stderr,
            process: Box::new(process),
        }),
        Ok(Some(ExecReply::Refused(why))) => Err(why),
        Ok(Some(ExecReply::Ended(_)) | None) => Err("the command ended before it began".to_owned()),
        Err(error) => Err(format!("start a command beside the container: {error}")),
    }
}

/// Both ends of stdin, stdout and stderr.
struct StdioEnds {
    stdin: Option<File>,
    stdout: Option<File>,
    stderr: Option<File>,
    /// In the order of [`ExecRequest::Run`].
    theirs: Vec<OwnedFd>,
    tty: bool,
}

impl StdioEnds {
    fn open(options: &ExecOptions) -> io::Result<StdioEnds> {
        if options.tty {
            let (ours, theirs) = terminal::open()?;
            let stdin = if options.stdin { Some(ours.try_clone()?) } else { None };
            return Ok(StdioEnds {
                stdin,
                stdout: Some(ours),
                stderr: None,
                theirs: vec![theirs.into()],
                tty: true,
            });
        }
        let (stdout, to_stdout) = io::pipe()?;
        let (stderr, to_stderr) = io::pipe()?;
        let mut theirs = vec![OwnedFd::from(to_stdout), OwnedFd::from(to_stderr)];
        let mut stdin = None;
        if options.stdin {
            let (reader, writer) = io::pipe()?;
            theirs.push(reader.into());
            stdin = Some(File::from(OwnedFd::from(writer)));
        }
        let file = |pipe: io::PipeReader| Some(File::from(OwnedFd::from(pipe)));
        Ok(StdioEnds { stdin, stdout: file(stdout), stderr: file(stderr), theirs, tty: false })
    }

    fn terminal(&self) -> Result<Option<Arc<File>>, String> {
        match &self.stdout {
            Some(file) if self.tty => {
                let file = file.try_clone().map_err(|error| format!("share the terminal: {error}"))?;
                Ok(Some(Arc::new(file)))
            }
            _ => Ok(None),
        }
    }
}

struct Process {
    channel: Arc<OwnedFd>,
    child: Child,
    terminal: Option<Arc<File>>,
    code: Option<i32>,
}

impl Process {
    fn answer(&self, within: Option<Duration>) -> io::Result<Option<ExecReply>> {
        if !channel::wait(&[(self.channel.as_fd(), Interest::Read)], within)?[0] {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(channel::receive(&self.channel)?.map(|(answer, _)| answer))
    }
}

impl ExecProcess for Process {
    fn wait(&mut self) -> io::Result<i32> {
        if let Some(code) = self.code {
            return Ok(code);
        }
        let code = loop {
            if !channel::wait(&[(self.channel.as_fd(), Interest::Read)], None)?[0] {
                continue;
            }
            match self.answer(None)? {
                Some(ExecReply::Ended(code)) => break code,
                Some(_) => {}
                // The exec process was killed.
                None => break 128 + signals::KILL,
            }
        };
        self.code = Some(code);
        self.child.wait()?;
        Ok(code)
    }

    fn killer(&self) -> Box<dyn Fn() + Send + Sync> {
        let channel = Arc::clone(&self.channel);
        Box::new(move || {
            let _ = channel::send(&channel, &ExecRequest::End, &[]);
        })
    }

    fn resizer(&self) -> Box<dyn Fn(u16, u16) + Send + Sync> {
        let terminal = self.terminal.clone();
        Box::new(move |columns, rows| {
            if let Some(terminal) = &terminal {
                terminal::resize(terminal.as_ref(), columns, rows);
            }
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.code.is_none() {
            let _ = channel::send(&self.channel, &ExecRequest::End, &[]);
            let _ = self.child.wait();
        }
    }
}
