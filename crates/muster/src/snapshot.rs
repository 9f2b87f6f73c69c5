//! `muster snapshot save|restore FILE`: copies the store of a data directory to a file, and back.
//!
//! A running server locks its data directory: it must be stopped first, and the error names its process.

use std::path::PathBuf;

use muster_store::copy::{self, CopyError, SnapshotInfo};

use crate::cli::{SnapshotCommand, SnapshotFlags};
use crate::settings::{self, SettingsError};

/// Nothing was saved or restored.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The store or the file cannot be used.
    #[error(transparent)]
    Copy(#[from] CopyError),
}

/// # Errors
/// Nothing was written.
pub fn run(command: &SnapshotCommand) -> Result<(), SnapshotError> {
    match command {
        SnapshotCommand::Save(flags) => {
            let folder = folder(flags)?;
            let copied = copy::save(&folder, &flags.file)?;
            tell(&format!("saved {} of {} to {}", what(&copied), folder.display(), flags.file.display()));
        }
        SnapshotCommand::Restore(flags) => {
            let folder = folder(flags)?;
            let copied = copy::restore(&flags.file, &folder)?;
            tell(&format!("restored {} of {} to {}", what(&copied), flags.file.display(), folder.display()));
        }
    }
    Ok(())
}

fn folder(flags: &SnapshotFlags) -> Result<PathBuf, SettingsError> {
    flags.data_dir.clone().or_else(settings::data_home).ok_or(SettingsError::NoHome)
}

fn what(copied: &SnapshotInfo) -> String {
    format!("revision {} ({} bytes)", copied.revision, copied.bytes)
}

#[expect(clippy::print_stdout, reason = "what was done is the data of this command")]
fn tell(text: &str) {
    println!("{text}");
}
