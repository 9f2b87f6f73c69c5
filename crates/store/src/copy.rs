//! Backups: a whole store in one file, for `muster snapshot save` and `muster snapshot restore`.
//!
//! The file starts with a line with its version and a line that describes its content; then follow the store's file,
//! compressed, and the SHA-256 of everything before. It contains the metadata values of the store (keys and
//! certificates), so it is readable by its owner only.
//!
//! # Guarantees
//!
//! - The store's lock is held while it is saved, so no server writes to it. A store that cannot be opened is not saved.
//! - A file under its final name is complete: save and restore write to a temporary name and rename it.
//! - A restore verifies the whole file first and never overwrites a non-empty directory.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use lz4_flex::frame::{FrameDecoder, FrameEncoder};
use muster_api::time::Time;
use muster_tree::{Tree, tree};
use sha2::{Digest, Sha256};

use crate::disk::{DirectoryLock, Disk, FORMAT, STORE_FILE};
use crate::share::Interner;
use crate::state::State;
use crate::{OpenError, StoreOptions};

/// Prefix of the first line.
const TITLE: &str = "muster snapshot ";
/// Version of the file format.
const VERSION: u32 = 1;
/// Longest header line in bytes, so that a wrong file cannot exhaust memory.
const LINE_BYTES_MAX: u64 = 4096;
/// Size of the checksum in bytes.
const SUM_BYTES: u64 = 32;

/// Description of a saved or restored store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Revision of the store.
    pub revision: u64,
    /// Uncompressed size of the store's file.
    pub bytes: u64,
}

/// Why a save or restore failed; nothing was saved or restored.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The data directory has no store.
    #[error("{path} holds no store\n\nhint: name the folder of `muster up` with `--data-dir`", path = path.display())]
    NoStore {
        /// Path of the data directory.
        path: PathBuf,
    },
    /// The store could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The target directory is not empty.
    #[error(
        "{path} is not empty\n\nhint: name a new folder with `--data-dir`, or move this one away first", path = path.display()
    )]
    NotEmpty {
        /// Path of the data directory.
        path: PathBuf,
    },
    /// The file is not a Muster snapshot.
    #[error("{path} is no snapshot of muster\n\nhint: give a file that `muster snapshot save` wrote", path = path.display())]
    Stranger {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file was written by a newer version of Muster.
    #[error(
        "{path} is a snapshot of format {found}, this version of muster reads format {known}\n\nhint: use the version that wrote it", path = path.display()
    )]
    Version {
        /// Path of the file.
        path: PathBuf,
        /// Format of the file.
        found: u32,
        /// Newest format that this version reads.
        known: u32,
    },
    /// The file is corrupt.
    #[error(
        "{path} is damaged: {problem}; nothing was restored\n\nhint: take another copy of it", path = path.display()
    )]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Description of the corruption.
        problem: String,
    },
    /// A file operation failed.
    #[error("{action} {path}: {source}", path = path.display())]
    Io {
        /// The operation, as a verb.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
}

/// Saves the store of a data directory that no server uses.
///
/// # Errors
/// The directory has no store, it is in use, the store is corrupt, or the file cannot be written.
pub fn save(directory: &Path, file: &Path) -> Result<SnapshotInfo, CopyError> {
    let store = directory.join(STORE_FILE);
    if !store.exists() {
        return Err(CopyError::NoStore { path: directory.to_owned() });
    }
    let mut disk = Disk::open(directory, StoreOptions::default(), None)?;
    let mut state = State::new(StoreOptions::default(), Time(0));
    disk.load(&mut state, &mut Interner::default())?;
    // Closing flushes the file as a clean shutdown does; the lock stays held, so no other process opens it.
    disk.close();
    let bytes = std::fs::metadata(&store).map_err(io_error("read", &store))?.len();
    let copied = SnapshotInfo { revision: state.revision(), bytes };
    let half = beside(file);
    let done = write(&store, &half, &copied).and_then(|()| finish(&half, file));
    done.map_err(|source| {
        let _ = std::fs::remove_file(&half);
        io_error("write", file)(source)
    })?;
    Ok(copied)
}

/// Restores a saved store into an empty or missing data directory.
///
/// # Errors
/// The directory is not empty, or the file is not a complete snapshot of a known version. Nothing is left behind.
pub fn restore(file: &Path, directory: &Path) -> Result<SnapshotInfo, CopyError> {
    let copied = check(file)?;
    let is_new = !directory.exists();
    std::fs::create_dir_all(directory).map_err(io_error("make", directory))?;
    let mut inside = std::fs::read_dir(directory).map_err(io_error("read", directory))?;
    if inside.next().is_some() {
        return Err(CopyError::NotEmpty { path: directory.to_owned() });
    }
    let lock = DirectoryLock::take(directory)?;
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

/// Removes the files of a failed restore, so that the user can retry.
fn clear(directory: &Path, is_new: bool) {
    for name in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let _ = std::fs::remove_file(name.path());
    }
    if is_new {
        let _ = std::fs::remove_dir(directory);
    }
}

/// The temporary name of a file that is being written.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}

/// Renames a complete file to its final name and syncs the directory.
fn finish(half: &Path, file: &Path) -> io::Result<()> {
    std::fs::rename(half, file)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Creates a file with mode 0600.
fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

fn write(store: &Path, half: &Path, copied: &SnapshotInfo) -> io::Result<()> {
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

/// Verifies a whole file: title, version and checksum.
fn check(file: &Path) -> Result<SnapshotInfo, CopyError> {
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
    // The checksum is verified before the description is parsed, so that a corrupt file is reported as such.
    if sum_of(file, body).map_err(&wrong)? != end_of(file, body).map_err(&wrong)? {
        return Err(damaged("its sum does not match"));
    }
    let tree = Tree::parse(described.as_bytes()).map_err(|_| damaged("its description cannot be read"))?;
    let number = |key: &str| tree.str_at(&[key]).parse::<u64>().ok();
    let format = tree.int_at(&["storeFormat"]).and_then(|format| u32::try_from(format).ok());
    if let Some(found) = format.filter(|found| *found > FORMAT) {
        return Err(OpenError::Format { path: file.to_owned(), found, known: FORMAT }.into());
    }
    let copied =
        number("revision").zip(number("bytes")).map(|(revision, bytes)| SnapshotInfo { revision, bytes });
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

/// A writer that computes the SHA-256 of its output.
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
