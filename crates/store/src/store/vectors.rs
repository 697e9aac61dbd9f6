//! [`Vectors`] in an SQL database. Each method is one transaction.

use super::database::Store;
use crate::error::StoreFuture;
use crate::rows::vectors;
use crate::sql::Lock;
use crate::vectors::{StoredVector, VectorChange, VectorOwner, VectorSelection, VectorSpace, Vectors};

impl Vectors for Store {
    fn id_of(&self, owner: &VectorOwner, text: &str) -> String {
        self.key.id_of(text, &owner.scope)
    }

    fn vector_space<'a>(&'a self, owner: &'a VectorOwner) -> StoreFuture<'a, VectorSpace> {
        Box::pin(self.work("read stored vectors", async move {
            vectors::space(&mut self.swift.session().await?, owner).await
        }))
    }

    fn vectors<'a>(
        &'a self,
        owner: &'a VectorOwner,
        selection: VectorSelection<'a>,
    ) -> StoreFuture<'a, Vec<StoredVector>> {
        Box::pin(self.work("read stored vectors", async move {
            vectors::select(&mut self.swift.session().await?, &self.key, owner, selection).await
        }))
    }

    fn change_vectors<'a>(
        &'a self,
        owner: &'a VectorOwner,
        change: VectorChange<'a>,
    ) -> StoreFuture<'a, VectorSpace> {
        Box::pin(self.work("store vectors", async move {
            let mut transaction = self.begin(Lock::Nothing).await?;
            let space = vectors::change(&mut transaction, &self.key, owner, &change).await?;
            transaction.commit().await?;
            Ok(space)
        }))
    }

    fn delete_vectors<'a>(
        &'a self,
        owner: &'a VectorOwner,
        ids: Option<&'a [String]>,
    ) -> StoreFuture<'a, u64> {
        Box::pin(self.work("delete vectors", async move {
            let mut transaction = self.begin(Lock::Nothing).await?;
            let deleted = vectors::delete(&mut transaction, owner, ids).await?;
            transaction.commit().await?;
            Ok(deleted)
        }))
    }
}
