//! Vectors with data, in spaces of scripts and users, and the search for the nearest ones.
//!
//! Every change raises the version of its space, so that hosts that share a database notice each other's
//! changes. The search is exact: every vector of the space is compared.

mod contract;
mod index;
mod memory;
mod ranking;

pub use contract::{
    MAX_SPACE_VECTORS, MAX_VECTOR_DATA, MAX_VECTOR_DIMENSIONS, MAX_VECTOR_ID, NewVector, StoredVector,
    VectorChange, VectorOwner, VectorSelection, VectorSpace, Vectors,
};
pub(crate) use contract::{check_change, checked_growth};
pub use index::{FoundVector, VectorIndex};
pub use memory::MemoryVectors;
