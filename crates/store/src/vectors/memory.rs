//! Vectors in memory, for tests and dry runs.

use super::contract::{
    StoredVector, VectorChange, VectorOwner, VectorSelection, VectorSpace, Vectors, check_change,
    checked_growth,
};
use crate::clock::now;
use crate::error::{StoreError, StoreErrorKind, StoreFuture};
use crate::seal::SealKey;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use valvehouse_json::Json;

/// The maximum size of a space that is copied, in bytes.
const MAX_COPY: u64 = 64 << 20;
/// The number of vectors that are copied at a time.
const BATCH: u64 = 200;

/// A vector store in memory. It may start as a copy of stored vectors, which remain unchanged.
pub struct MemoryVectors {
    /// The key for ids; unused for a copy.
    key: SealKey,
    spaces: Mutex<HashMap<VectorOwner, MemorySpace>>,
    original: Option<Arc<dyn Vectors>>,
    /// The spaces that have been copied. The lock is held during a copy.
    copied: tokio::sync::Mutex<HashSet<VectorOwner>>,
}

#[derive(Default)]
struct MemorySpace {
    state: VectorSpace,
    vectors: BTreeMap<String, (StoredVector, u64)>,
}

impl Default for MemoryVectors {
    fn default() -> Self {
        Self {
            key: SealKey::random(),
            spaces: Mutex::default(),
            original: None,
            copied: tokio::sync::Mutex::default(),
        }
    }
}

impl MemoryVectors {
    /// Creates a store that starts as a copy.
    pub fn copy_of(original: Arc<dyn Vectors>) -> Self {
        Self { original: Some(original), ..Self::default() }
    }

    /// Copies a space when it is first used.
    async fn begin(&self, owner: &VectorOwner) -> Result<(), StoreError> {
        let Some(original) = &self.original else { return Ok(()) };
        let mut copied = self.copied.lock().await;
        if copied.contains(owner) {
            return Ok(());
        }
        let state = original.vector_space(owner).await?;
        if state.bytes > MAX_COPY {
            let most = MAX_COPY >> 20;
            return Err(error(format!(
                "cannot copy {} vectors for a dry run: they exceed {most} MiB",
                state.count
            )));
        }
        let mut vectors: BTreeMap<String, (StoredVector, u64)> = BTreeMap::new();
        let mut after = String::new();
        loop {
            let with_data = VectorSelection::All { after: &after, limit: BATCH };
            let data = original.vectors(owner, with_data).await?;
            let changed = VectorSelection::Changed { since: 0, after: &after, limit: BATCH };
            for vector in original.vectors(owner, changed).await? {
                vectors.insert(vector.id.clone(), (vector, 0));
            }
            let Some(last) = data.last() else { break };
            after.clone_from(&last.id);
            for one in data {
                if let Some((vector, _)) = vectors.get_mut(&one.id) {
                    vector.data = one.data;
                }
            }
        }
        self.spaces.lock().insert(owner.clone(), MemorySpace { state, vectors });
        copied.insert(owner.clone());
        Ok(())
    }
}

fn error(cause: String) -> StoreError {
    let (doing, place) = ("store vectors".to_owned(), "memory".to_owned());
    StoreError { doing, place, kind: StoreErrorKind::Refused, cause, help: None }
}

impl Vectors for MemoryVectors {
    fn id_of(&self, owner: &VectorOwner, text: &str) -> String {
        match &self.original {
            Some(original) => original.id_of(owner, text),
            None => self.key.id_of(text, &owner.scope),
        }
    }

    fn vector_space<'a>(&'a self, owner: &'a VectorOwner) -> StoreFuture<'a, VectorSpace> {
        Box::pin(async move {
            self.begin(owner).await?;
            Ok(self.spaces.lock().get(owner).map_or_else(VectorSpace::default, |space| space.state.clone()))
        })
    }

    fn vectors<'a>(
        &'a self,
        owner: &'a VectorOwner,
        selection: VectorSelection<'a>,
    ) -> StoreFuture<'a, Vec<StoredVector>> {
        Box::pin(async move {
            self.begin(owner).await?;
            let spaces = self.spaces.lock();
            let Some(space) = spaces.get(owner) else { return Ok(Vec::new()) };
            let all = space.vectors.values().map(|(vector, _)| vector);
            let with_data = |one: &StoredVector| StoredVector {
                vector: Vec::new(),
                data: one.data.deep_clone(),
                ..one.clone()
            };
            let most = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
            Ok(match selection {
                VectorSelection::Changed { since, after, limit } => all
                    .filter(|one| one.version > since && one.id.as_str() > after)
                    .take(most(limit))
                    .map(|one| StoredVector { data: Json::Null, ..one.clone() })
                    .collect(),
                VectorSelection::All { after, limit } => {
                    all.filter(|one| one.id.as_str() > after).take(most(limit)).map(with_data).collect()
                }
                VectorSelection::Ids(ids) => all.filter(|one| ids.contains(&one.id)).map(with_data).collect(),
            })
        })
    }

    fn change_vectors<'a>(
        &'a self,
        owner: &'a VectorOwner,
        change: VectorChange<'a>,
    ) -> StoreFuture<'a, VectorSpace> {
        Box::pin(async move {
            self.begin(owner).await?;
            let texts = check_change(&change).map_err(error)?;
            let mut spaces = self.spaces.lock();
            let owned: u64 = match owner.plugin.is_empty() {
                true => 0,
                false => {
                    let own =
                        spaces.iter().filter(|(other, _)| other.plugin == owner.plugin && *other != owner);
                    own.map(|(_, space)| space.state.bytes).sum()
                }
            };
            let space = spaces.entry(owner.clone()).or_default();
            let mut vectors = if change.replace { BTreeMap::new() } else { space.vectors.clone() };
            change.put.iter().for_each(|one| drop(vectors.remove(&one.id)));
            let bytes =
                |vectors: &BTreeMap<String, (StoredVector, u64)>| vectors.values().map(|one| one.1).sum();
            let others =
                VectorSpace { count: vectors.len() as u64, bytes: bytes(&vectors), ..space.state.clone() };
            let version = space.state.version + 1;
            for (one, text) in change.put.iter().zip(&texts) {
                let (id, vector) = (one.id.clone(), one.vector.clone());
                let stored = StoredVector { id, version, at: now(), data: one.data.deep_clone(), vector };
                vectors.insert(one.id.clone(), (stored, one.size(text)));
            }
            let after = VectorSpace {
                version,
                label: change.label.to_owned(),
                dimensions: change.put.first().map_or(others.dimensions, |one| one.vector.len() as u64),
                count: vectors.len() as u64,
                bytes: bytes(&vectors),
            };
            let sum = after.bytes + owned;
            let state = checked_growth(&change, &others, after, sum).map_err(error)?;
            *space = MemorySpace { state: state.clone(), vectors };
            Ok(state)
        })
    }

    fn delete_vectors<'a>(
        &'a self,
        owner: &'a VectorOwner,
        ids: Option<&'a [String]>,
    ) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            self.begin(owner).await?;
            let mut spaces = self.spaces.lock();
            let space = spaces.entry(owner.clone()).or_default();
            let before = space.vectors.len();
            match ids {
                Some(ids) => ids.iter().for_each(|id| drop(space.vectors.remove(id))),
                None => space.vectors.clear(),
            }
            let count = space.vectors.len();
            let old = std::mem::take(&mut space.state);
            let (label, dimensions) = match count {
                0 => (String::new(), 0),
                _ => (old.label, old.dimensions),
            };
            let bytes = space.vectors.values().map(|one| one.1).sum();
            let version = old.version + 1;
            space.state = VectorSpace { version, label, dimensions, count: count as u64, bytes };
            Ok((before - count) as u64)
        })
    }
}
