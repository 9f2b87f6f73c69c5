//! Fault injection for the store file, for tests of crashes and disk errors.

use std::fmt::Debug;
use std::io;
use std::ops::Bound;
use std::sync::Arc;

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};

/// An operation on the store file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskAct {
    /// Reads a range of bytes.
    Read,
    /// Writes a range of bytes.
    Write,
    /// Changes the file size.
    Resize,
    /// Syncs the file (fsync).
    Sync,
}

/// Decides which operations on the store file fail.
pub trait DiskFaults: Debug + Send + Sync {
    /// Called before an operation; an error fails it.
    fn before(&self, act: DiskAct) -> io::Result<()>;
}

/// A storage backend with injected faults.
#[derive(Debug)]
pub(crate) struct Faulty {
    pub(crate) file: FileBackend,
    pub(crate) faults: Arc<dyn DiskFaults>,
}

impl StorageBackend for Faulty {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.faults.before(DiskAct::Read)?;
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.faults.before(DiskAct::Resize)?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.faults.before(DiskAct::Sync)?;
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.faults.before(DiskAct::Write)?;
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }
}
