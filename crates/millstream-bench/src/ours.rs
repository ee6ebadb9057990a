//! The contender of this project: every workload's way through the engine's public interface.

use std::path::PathBuf;

use crate::corpus::CorpusFile;
use crate::error::Result;
use crate::read::Files;
use crate::requests::Cell;
use crate::requests::latency::SingleReader;
use crate::requests::realtime::RealtimeSystem;
use crate::ring::ReadJob;
use crate::startup::Plan;
use crate::workload::Field;

/// Contenders of workload `read`.
pub(crate) fn read_contenders(_field: &mut Field, _files: &Files, _quick: bool) {}

/// Contenders of a cell of workload `requests`.
pub(crate) fn request_contenders(
    _field: &mut Field,
    _file: &CorpusFile,
    _cell: Cell,
    _jobs: &[ReadJob],
) {
}

/// Readers of single requests.
pub(crate) fn single_readers(
    _readers: &mut Vec<Box<dyn SingleReader>>,
    _file: &CorpusFile,
) -> Result<()> {
    Ok(())
}

/// Systems of realtime readers beside bulk.
pub(crate) fn realtime_systems(
    _systems: &mut Vec<Box<dyn RealtimeSystem>>,
    _file: &CorpusFile,
) -> Result<()> {
    Ok(())
}

/// Contenders that hand over reads one by one.
pub(crate) fn held_contenders(_field: &mut Field, _file: &CorpusFile, _jobs: &[ReadJob]) {}

/// Contenders that open many files.
pub(crate) fn open_contenders(_field: &mut Field, _paths: &[PathBuf]) {}

/// Contenders of workload `startup`.
pub(crate) fn startup_contenders(_field: &mut Field, _plan: &std::sync::Arc<Plan>) {}
