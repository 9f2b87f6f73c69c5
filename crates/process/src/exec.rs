//! Commands beside containers, seen from the server.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::beside::{Answer, Ask};
use crate::files::Orders;
use crate::port::{Exec, ExecOptions, ExecProcess};
use crate::system::channel::{self, Want};
use crate::system::{signals, terminal};
use crate::words;

/// How long a command may take to begin.
const BEGIN_WITHIN: Duration = Duration::from_secs(10);

/// Starts a command beside a container.
///
/// # Errors
/// In words: it does not run, or the command cannot be found.
pub fn start(program: &Path, dir: &Path, orders: &Orders, options: &ExecOptions) -> Result<Exec, String> {
    let said = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    let (ours, theirs) = channel::pair().map_err(said("make a channel"))?;
    let mut ends = Ends::open(options).map_err(said("make pipes"))?;
    let child = words::command(program, words::BESIDE, dir, orders)
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(said("start a command beside the container"))?;
    let process = Process { channel: Arc::new(ours), child, terminal: ends.terminal()?, code: None };
    let passed: Vec<BorrowedFd<'_>> = ends.theirs.iter().map(AsFd::as_fd).collect();
    let ask = Ask::Run { argv: options.argv.clone(), tty: options.tty };
    channel::send(&process.channel, &ask, &passed).map_err(said("ask for the command"))?;
    ends.theirs.clear();
    match process.answer(Some(BEGIN_WITHIN)) {
        Ok(Some(Answer::Started)) => Ok(Exec {
            stdin: ends.stdin,
            stdout: ends.stdout,
            stderr: ends.stderr,
            process: Box::new(process),
        }),
        Ok(Some(Answer::Refused(why))) => Err(why),
        Ok(Some(Answer::Ended(_)) | None) => Err("the command ended before it began".to_owned()),
        Err(error) => Err(format!("start a command beside the container: {error}")),
    }
}

/// Both ends of the command's input and output.
struct Ends {
    stdin: Option<File>,
    stdout: Option<File>,
    stderr: Option<File>,
    /// In the order of [`Ask::Run`].
    theirs: Vec<OwnedFd>,
    tty: bool,
}

impl Ends {
    fn open(options: &ExecOptions) -> io::Result<Ends> {
        if options.tty {
            let (ours, theirs) = terminal::open()?;
            let stdin = if options.stdin { Some(ours.try_clone()?) } else { None };
            return Ok(Ends {
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
        Ok(Ends { stdin, stdout: file(stdout), stderr: file(stderr), theirs, tty: false })
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
    fn answer(&self, within: Option<Duration>) -> io::Result<Option<Answer>> {
        if !channel::wait(&[(self.channel.as_fd(), Want::Read)], within)?[0] {
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
            if !channel::wait(&[(self.channel.as_fd(), Want::Read)], None)?[0] {
                continue;
            }
            match self.answer(None)? {
                Some(Answer::Ended(code)) => break code,
                Some(_) => {}
                // Somebody ended the process between us and the command.
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
            let _ = channel::send(&channel, &Ask::End, &[]);
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
            let _ = channel::send(&self.channel, &Ask::End, &[]);
            let _ = self.child.wait();
        }
    }
}
