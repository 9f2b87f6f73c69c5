//! Durability: one redb file with a commit log and a rolling snapshot.
//!
//! - `log`: first revision of a commit -> its records;
//! - `base`: (generation, n) -> a block of objects in key order;
//! - `meta`: format, active snapshot, compacted revision, and the small values of callers.
//!
//! # Guarantees
//!
//! - The state at a revision is the blocks of the active snapshot, then the log from its `begin`; the newer record wins.
//! - A failed commit leaves nothing behind: before the next one the file is reopened and truncated to the published
//!   revision.
//! - A commit does a bounded amount of work besides its own records.

mod commit;
mod faults;
mod load;
mod lock;
mod snapshot;

use std::collections::BTreeMap;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

pub(crate) use commit::Base;
use faults::Faulty;
pub use faults::{DiskAct, DiskFaults};
pub use lock::DirectoryLock;
use snapshot::{Rolling, Snapshot};

use crate::codec::decode;
use crate::share::Interner;
use crate::{OpenError, StoreOptions, SyncMode};

/// File format of this version.
pub(crate) const FORMAT: u32 = 1;
/// Size of redb's page cache in bytes. After loading nothing is read, so it only holds pages that commits modify.
const CACHE_BYTES: usize = 8 << 20;
/// File name within the data directory.
pub(crate) const STORE_FILE: &str = "store.redb";

const LOG: TableDefinition<u64, &[u8]> = TableDefinition::new("log");
const BASE: TableDefinition<(u64, u32), &[u8]> = TableDefinition::new("base");
const META: TableDefinition<&str, &[u8]> = TableDefinition::new("meta");

const META_FORMAT: &str = "format";
const META_SNAPSHOT: &str = "snapshot";
const META_COMPACTED: &str = "compacted";
/// Key prefix of the small values of callers.
const META_OTHERS: &str = "other/";

/// A result with redb's error.
type DiskResult<T> = Result<T, redb::Error>;

/// The open store file and its bookkeeping.
pub(crate) struct Disk {
    path: PathBuf,
    /// `None` after a failed commit, until the file could be reopened.
    db: Option<Database>,
    faults: Option<Arc<dyn DiskFaults>>,
    options: StoreOptions,
    snapshot: Snapshot,
    rolling: Option<Rolling>,
    /// Largest snapshot generation in use; the next one is larger.
    generation_max: u64,
    log_bytes: u64,
    base_bytes: u64,
    /// Bytes of the log that remain after the snapshot in progress is completed.
    log_kept: u64,
    /// Obsolete log entries or blocks may exist and are to be removed.
    leftovers: bool,
    /// Commits exist that are not synced yet.
    unsynced: bool,
    _lock: DirectoryLock,
}

impl Drop for Disk {
    /// Closes the file. redb may panic here on a corrupt file; committed data is on disk by then, and the next open reports
    /// the corruption.
    fn drop(&mut self) {
        let db = self.db.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(db)));
    }
}

impl Disk {
    /// Opens or creates the store in a data directory, which is created if it is missing.
    pub(crate) fn open(
        directory: &Path,
        options: StoreOptions,
        faults: Option<Arc<dyn DiskFaults>>,
    ) -> Result<Self, OpenError> {
        let io = |source| OpenError::Io { action: "make", path: directory.to_owned(), source };
        std::fs::create_dir_all(directory).map_err(io)?;
        let lock = DirectoryLock::take(directory)?;
        let mut disk = Self {
            path: directory.join(STORE_FILE),
            db: None,
            faults,
            options,
            snapshot: Snapshot::default(),
            rolling: None,
            generation_max: 0,
            log_bytes: 0,
            base_bytes: 0,
            log_kept: 0,
            leftovers: true,
            unsynced: false,
            _lock: lock,
        };
        // redb trusts its pages and panics on some corruptions; here that must be an error.
        match catch_unwind(AssertUnwindSafe(|| disk.begin_life(directory))) {
            Ok(begun) => begun.map(|()| disk),
            Err(_) => {
                // A database that panicked while reading would panic again in its destructor.
                std::mem::forget(disk.db.take());
                Err(disk.hole("redb gave up reading it"))
            }
        }
    }

    fn begin_life(&mut self, directory: &Path) -> Result<(), OpenError> {
        if !self.path.exists() {
            let made = self.make(directory);
            made.map_err(|source| OpenError::Io { action: "make", path: self.path.clone(), source })?;
        }
        // The file is created under another name and renamed, so an empty one is corrupt even after a crash.
        if std::fs::metadata(&self.path).is_ok_and(|file| file.len() == 0) {
            return Err(self.hole("it is empty"));
        }
        // Stored before reading: a panic while reading must not run its destructor during unwinding.
        self.db = Some(self.database().map_err(|e| self.damaged(&e))?);
        let found = format_of(self.db()).map_err(|e| self.damaged(&e))?;
        if found > FORMAT {
            return Err(OpenError::Format { path: self.path.clone(), found, known: FORMAT });
        }
        self.attach().map_err(|e| self.damaged(&e))
    }

    /// Creates the file under a temporary name and renames it, so that a file under its final name is complete.
    fn make(&self, directory: &Path) -> std::io::Result<()> {
        let half = self.path.with_extension("new");
        if half.exists() {
            std::fs::remove_file(&half)?;
        }
        // The file will contain signing keys, so only its owner may read it.
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&half)?;
        drop(Database::create(&half).map_err(std::io::Error::other)?);
        std::fs::rename(&half, &self.path)?;
        std::fs::File::open(directory)?.sync_all()
    }

    /// Closes the file and keeps the lock of the directory.
    pub(crate) fn close(&mut self) {
        self.db = None;
    }

    /// Bytes that loading would read.
    pub(crate) fn bytes(&self) -> u64 {
        let rolling = self.rolling.as_ref().map_or(0, |rolling| rolling.bytes);
        self.log_bytes + self.base_bytes + rolling
    }

    /// Stores a small value of a caller; it is durable when this returns.
    pub(crate) fn put_other(&mut self, name: &str, bytes: &[u8], base: &dyn Base) -> DiskResult<()> {
        self.put_meta(&format!("{META_OTHERS}{name}"), bytes, base)
    }

    /// Records that the history up to `revision` was compacted.
    pub(crate) fn put_compacted(&mut self, revision: u64, base: &dyn Base) -> DiskResult<()> {
        self.put_meta(META_COMPACTED, &revision.to_le_bytes(), base)
    }

    fn put_meta(&mut self, name: &str, bytes: &[u8], base: &dyn Base) -> DiskResult<()> {
        self.mend(base)?;
        let done = self.begin().and_then(|write| {
            write.open_table(META)?.insert(name, bytes)?;
            Ok(write.commit()?)
        });
        self.note(done)
    }

    /// All small values of callers.
    pub(crate) fn others(&self) -> Result<BTreeMap<String, Vec<u8>>, OpenError> {
        self.read_others().map_err(|error| self.damaged(&error))
    }

    fn read_others(&self) -> DiskResult<BTreeMap<String, Vec<u8>>> {
        let read = self.db().begin_read()?;
        let meta = read.open_table(META)?;
        let mut all = BTreeMap::new();
        for entry in meta.range(META_OTHERS..)? {
            let (name, bytes) = entry?;
            if let Some(name) = name.value().strip_prefix(META_OTHERS) {
                all.insert(name.to_owned(), bytes.value().to_vec());
            }
        }
        Ok(all)
    }

    fn database(&self) -> DiskResult<Database> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        let db = match &self.faults {
            None => builder.create(&self.path)?,
            Some(faults) => {
                let mut options = std::fs::OpenOptions::new();
                let file = options.read(true).write(true).create(true).truncate(false).open(&self.path);
                let file = redb::backends::FileBackend::new(file.map_err(redb::Error::Io)?)?;
                builder.create_with_backend(Faulty { file, faults: faults.clone() })?
            }
        };
        Ok(db)
    }

    fn db(&self) -> &Database {
        self.db.as_ref().expect("the file is open outside of a failed commit")
    }

    fn begin(&self) -> DiskResult<WriteTransaction> {
        let mut write = self.db().begin_write()?;
        write.set_quick_repair(true);
        Ok(write)
    }

    /// Reads the file's metadata, and creates the tables of a new file.
    fn attach(&mut self) -> DiskResult<()> {
        let write = self.begin()?;
        {
            let mut meta = write.open_table(META)?;
            if meta.get(META_FORMAT)?.is_none() {
                meta.insert(META_FORMAT, &FORMAT.to_le_bytes()[..])?;
            }
            let snapshot = meta.get(META_SNAPSHOT)?.map(|bytes| Snapshot::of_bytes(bytes.value()));
            let damaged =
                || redb::Error::Corrupted("the description of the snapshot is unreadable".to_owned());
            self.snapshot = snapshot.map_or(Some(Snapshot::default()), |s| s).ok_or_else(damaged)?;
            let base = write.open_table(BASE)?;
            let last = base.last()?.map_or(0, |(key, _)| key.value().0);
            self.generation_max = last.max(self.snapshot.generation);
            let generation = self.snapshot.generation;
            self.base_bytes = sum(base.range((generation, 0)..=(generation, u32::MAX))?)?;
            self.log_bytes = sum(write.open_table(LOG)?.range(self.snapshot.begin..)?)?;
        }
        (self.rolling, self.log_kept, self.leftovers, self.unsynced) = (None, 0, true, false);
        Ok(write.commit()?)
    }

    /// After a failed commit: reopens the file and makes it hold exactly the published state.
    fn mend(&mut self, base: &dyn Base) -> DiskResult<()> {
        if self.db.is_some() {
            return Ok(());
        }
        self.db = Some(self.database()?);
        let done = self.attach().and_then(|()| self.cut(base.revision())).and_then(|reached| {
            // Relaxed commits were published but never synced: write a whole snapshot.
            if reached < base.revision() { self.rewrite(base) } else { Ok(()) }
        });
        self.note(done)
    }

    /// Removes unpublished commits; returns the last revision of the log.
    fn cut(&mut self, published: u64) -> DiskResult<u64> {
        let write = self.begin()?;
        let mut log = write.open_table(LOG)?;
        log.retain_in(published + 1.., |_, _| false)?;
        let last = log.last()?.map(|(first, bytes)| (first.value(), bytes.value().to_vec()));
        drop(log);
        write.commit()?;
        self.leftovers = true;
        let Some((first, bytes)) = last else {
            return Ok(self.snapshot.end);
        };
        let segment = decode(&bytes, &mut Interner::default());
        let segment = segment.map_err(|problem| redb::Error::Corrupted(problem.to_owned()))?;
        Ok(first + segment.records.len() as u64 - 1)
    }

    /// Closes the file after an error: redb rejects any further operation until it is reopened.
    fn note<T>(&mut self, done: DiskResult<T>) -> DiskResult<T> {
        if done.is_err() {
            self.db = None;
            self.rolling = None;
        }
        done
    }

    fn damaged(&self, error: &redb::Error) -> OpenError {
        let path = self.path.clone();
        match error {
            redb::Error::Io(source) => {
                let source = std::io::Error::new(source.kind(), source.to_string());
                OpenError::Io { action: "read", path, source }
            }
            other => OpenError::Damaged { path, problem: other.to_string() },
        }
    }

    fn is_relaxed(&self) -> bool {
        self.options.sync == SyncMode::Relaxed
    }
}

/// The format of the file; 0 for a new one.
fn format_of(db: &Database) -> DiskResult<u32> {
    let meta = match db.begin_read()?.open_table(META) {
        Ok(meta) => meta,
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(0),
        Err(other) => return Err(other.into()),
    };
    let format = meta.get(META_FORMAT)?.and_then(|bytes| bytes.value().try_into().ok());
    Ok(format.map_or(0, u32::from_le_bytes))
}

/// Total bytes of the values in a range.
fn sum<'a, K: redb::Key + 'static>(range: redb::Range<'a, K, &'static [u8]>) -> DiskResult<u64> {
    let mut bytes = 0;
    for entry in range {
        bytes += entry?.1.value().len() as u64;
    }
    Ok(bytes)
}
