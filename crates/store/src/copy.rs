//! A whole store in one file, to be kept elsewhere: `muster snapshot save` and `restore`.
//!
//! The file begins with a line that names its version and one that describes what it holds; then comes the store's own
//! file, compressed, and at the end the SHA-256 of everything before. What the store keeps for others (keys and
//! certificates) is part of it, so it can be read by its owner only.
//!
//! # Invariants
//!
//! - Nobody writes to the store meanwhile: its lock is held. A store that cannot be opened is not saved.
//! - A file of the right name is whole: both ways write under another name first.
//! - Nothing is restored unless everything was checked, and never over something else.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use lz4_flex::frame::{FrameDecoder, FrameEncoder};
use muster_api::time::Time;
use muster_tree::{Tree, tree};
use sha2::{Digest, Sha256};

use crate::disk::{Disk, FORMAT, FolderLock, STORE_FILE};
use crate::share::Shelter;
use crate::state::State;
use crate::{OpenError, StoreOptions};

/// How the first line begins.
const TITLE: &str = "muster snapshot ";
/// The version written by this version of muster.
const VERSION: u32 = 1;
/// The longest of the two lines at the beginning.
const LINE_BYTES_MAX: u64 = 4096;
/// The sum at the end.
const SUM_BYTES: u64 = 32;

/// What was saved or restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// The revision of the store.
    pub revision: u64,
    /// The size of the store's file.
    pub bytes: u64,
}

/// Why nothing was saved or restored.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// There is no store.
    #[error("{path} holds no store\n\nhint: name the folder of `muster up` with `--data-dir`", path = path.display())]
    NoStore {
        /// The data directory.
        path: PathBuf,
    },
    /// The store does not open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Something is there already.
    #[error(
        "{path} is not empty\n\nhint: name a new folder with `--data-dir`, or move this one away first", path = path.display()
    )]
    NotEmpty {
        /// The data directory.
        path: PathBuf,
    },
    /// This is something else.
    #[error("{path} is no snapshot of muster\n\nhint: give a file that `muster snapshot save` wrote", path = path.display())]
    Stranger {
        /// The file.
        path: PathBuf,
    },
    /// A newer Muster wrote this.
    #[error(
        "{path} is a snapshot of format {found}, this version of muster reads format {known}\n\nhint: use the version that wrote it", path = path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The format known here.
        known: u32,
    },
    /// The file is damaged.
    #[error(
        "{path} is damaged: {problem}; nothing was restored\n\nhint: take another copy of it", path = path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The operating system refused.
    #[error("{action} {path}: {source}", path = path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

/// Saves the store of a data directory that no server uses.
///
/// # Errors
/// There is none, somebody uses it, it is damaged, or the file cannot be written.
pub fn save(directory: &Path, file: &Path) -> Result<Copied, CopyError> {
    let store = directory.join(STORE_FILE);
    if !store.exists() {
        return Err(CopyError::NoStore { path: directory.to_owned() });
    }
    let mut disk = Disk::open(directory, StoreOptions::default(), None)?;
    let mut state = State::new(StoreOptions::default(), Time(0));
    disk.load(&mut state, &mut Shelter::default())?;
    // Closed, but still ours: the file is as a clean stop leaves it, and nobody opens it meanwhile.
    disk.close();
    let bytes = std::fs::metadata(&store).map_err(io_error("read", &store))?.len();
    let copied = Copied { revision: state.revision(), bytes };
    let half = beside(file);
    let done = write(&store, &half, &copied).and_then(|()| finish(&half, file));
    done.map_err(|source| {
        let _ = std::fs::remove_file(&half);
        io_error("write", file)(source)
    })?;
    Ok(copied)
}

/// Restores a saved store into a data directory that is empty or not there yet.
///
/// # Errors
/// The directory holds something, or the file is not a whole snapshot of a known version. Nothing is left behind then.
pub fn restore(file: &Path, directory: &Path) -> Result<Copied, CopyError> {
    let copied = check(file)?;
    let is_new = !directory.exists();
    std::fs::create_dir_all(directory).map_err(io_error("make", directory))?;
    let mut inside = std::fs::read_dir(directory).map_err(io_error("read", directory))?;
    if inside.next().is_some() {
        return Err(CopyError::NotEmpty { path: directory.to_owned() });
    }
    let lock = FolderLock::take(directory)?;
    let (store, half) = (directory.join(STORE_FILE), directory.join(STORE_FILE).with_extension("new"));
    let done = unpack(file, &half, copied.bytes).and_then(|()| finish(&half, &store));
    let opened = match done {
        Ok(()) => {
            drop(lock);
            Disk::open(directory, StoreOptions::default(), None).map(drop).map_err(CopyError::Open)
        }
        Err(source) => Err(io_error("write", &store)(source)),
    };
    if let Err(error) = opened {
        clear(directory, is_new);
        return Err(error);
    }
    Ok(copied)
}

fn io_error(action: &'static str, path: &Path) -> impl Fn(io::Error) -> CopyError {
    move |source| CopyError::Io { action, path: path.to_owned(), source }
}

/// Removes what a failed restore made.
fn clear(directory: &Path, is_new: bool) {
    for name in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let _ = std::fs::remove_file(name.path());
    }
    if is_new {
        let _ = std::fs::remove_dir(directory);
    }
}

/// The name under which a file is written until it is whole.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}

/// Gives a whole file its name, durably.
fn finish(half: &Path, file: &Path) -> io::Result<()> {
    std::fs::rename(half, file)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// A new file for its owner alone.
fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

fn write(store: &Path, half: &Path, copied: &Copied) -> io::Result<()> {
    let mut out = Summed { inner: BufWriter::new(private(half)?), sum: Sha256::new() };
    let described = tree!({"storeFormat": i64::from(FORMAT), "revision": copied.revision.to_string(),
        "bytes": copied.bytes.to_string()});
    writeln!(out, "{TITLE}{VERSION}")?;
    writeln!(out, "{}", described.to_json())?;
    let mut packed = FrameEncoder::new(out);
    io::copy(&mut File::open(store)?, &mut packed)?;
    let Summed { mut inner, sum } = packed.finish().map_err(io::Error::other)?;
    inner.write_all(&sum.finalize())?;
    inner.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

/// Reads the whole file: is it one of ours, of a version we know, and unchanged?
fn check(file: &Path) -> Result<Copied, CopyError> {
    let wrong = io_error("read", file);
    let damaged = |problem: &str| CopyError::Damaged { path: file.to_owned(), problem: problem.to_owned() };
    let length = std::fs::metadata(file).map_err(&wrong)?.len();
    let mut input = BufReader::new(File::open(file).map_err(&wrong)?);
    let title = line(&mut input).map_err(&wrong)?;
    let stranger = || CopyError::Stranger { path: file.to_owned() };
    let found: u32 =
        title.strip_prefix(TITLE).and_then(|v| v.trim_end().parse().ok()).ok_or_else(stranger)?;
    if found > VERSION {
        return Err(CopyError::Version { path: file.to_owned(), found, known: VERSION });
    }
    let described = line(&mut input).map_err(&wrong)?;
    let body = length.checked_sub(SUM_BYTES).ok_or_else(|| damaged("it is cut short"))?;
    if sum_of(file, body).map_err(&wrong)? != end_of(file, body).map_err(&wrong)? {
        return Err(damaged("its sum does not match"));
    }
    let tree = Tree::parse(described.as_bytes()).map_err(|_| damaged("its description cannot be read"))?;
    let number = |key: &str| tree.str_at(&[key]).parse::<u64>().ok();
    let format = tree.int_at(&["storeFormat"]).and_then(|format| u32::try_from(format).ok());
    if let Some(found) = format.filter(|found| *found > FORMAT) {
        return Err(OpenError::Format { path: file.to_owned(), found, known: FORMAT }.into());
    }
    let copied = number("revision").zip(number("bytes")).map(|(revision, bytes)| Copied { revision, bytes });
    copied.ok_or_else(|| damaged("its description is incomplete"))
}

fn line(input: &mut impl BufRead) -> io::Result<String> {
    let mut bytes = Vec::new();
    input.take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn sum_of(file: &Path, bytes: u64) -> io::Result<Vec<u8>> {
    let mut read = Summed { inner: io::sink(), sum: Sha256::new() };
    io::copy(&mut File::open(file)?.take(bytes), &mut read)?;
    Ok(read.sum.finalize().to_vec())
}

fn end_of(file: &Path, from: u64) -> io::Result<Vec<u8>> {
    let mut input = File::open(file)?;
    input.seek(SeekFrom::Start(from))?;
    let mut end = Vec::new();
    input.read_to_end(&mut end)?;
    Ok(end)
}

fn unpack(file: &Path, to: &Path, bytes: u64) -> io::Result<()> {
    let mut input = BufReader::new(File::open(file)?);
    for _ in 0..2 {
        line(&mut input)?;
    }
    let mut out = private(to)?;
    let written = io::copy(&mut FrameDecoder::new(input).take(bytes), &mut out)?;
    if written != bytes {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{written} bytes instead of {bytes}"),
        ));
    }
    out.sync_all()
}

/// Sums what is written.
struct Summed<W> {
    inner: W,
    sum: Sha256,
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.sum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
