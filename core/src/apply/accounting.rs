//! Changes of accounts, users, associations and qualities of service.

use imbl::ordmap::DiffItem;

use super::Applying;
use crate::{
    Refusal,
    accounting::{Book, Change, change::Place},
    authz,
    command::Identity,
    mirror::{MirrorSink, SINGLE, Table, encode},
};

impl Applying<'_> {
    /// Does all changes, or none.
    pub(super) fn change_accounting(&mut self, who: &Identity, changes: &[Change]) -> Result<u32, Refusal> {
        let mut book = self.state.book.clone();
        for change in changes {
            authz::decide_accounting(self.state, &book, who, change)?;
            self.check_idle(&book, change)?;
            book.change(change)?;
        }
        // What jobs use is counted along the tree: it is counted anew where that changes.
        let moved = changes.iter().any(|change| match change {
            Change::ChangeAccount { parent, .. } => parent.is_some(),
            Change::RemoveAssociation { .. } | Change::RemoveUser { .. } | Change::RemoveAccount { .. } => true,
            Change::RemoveQos { .. } => true,
            _ => false,
        });
        let before = std::mem::replace(&mut self.state.book, book);
        self.dirty.book.get_or_insert(before);
        if moved {
            self.state.recount();
        }
        Ok(changes.len() as u32)
    }

    /// Refuses to take away associations whose jobs have not ended.
    fn check_idle(&self, book: &Book, change: &Change) -> Result<(), Refusal> {
        let of_place = |place: &Place| book.at(place).map(|one| one.id).into_iter().collect::<Vec<_>>();
        let gone = match change {
            Change::RemoveAssociation { place } => of_place(place),
            Change::RemoveUser { name } => book.associations_of(name).map(|one| one.id).collect(),
            Change::RemoveAccount { name } => of_place(&Place { account: name.clone(), ..Place::default() }),
            _ => Vec::new(),
        };
        match gone.into_iter().find(|id| self.state.submitted_by(*id) > 0) {
            Some(_) => Err(Refusal::RecordInUse { what: "an association with jobs".to_owned() }),
            None => Ok(()),
        }
    }
}

/// Hands records that differ to the mirror.
pub(super) fn mirror_changes(before: &Book, after: &Book, mirror: &mut dyn MirrorSink) {
    if before.counters != after.counters {
        mirror.put(Table::AccountingCounters, SINGLE, encode(&after.counters));
    }
    macro_rules! differ {
        ($field:ident, $table:expr, $key:expr) => {
            for item in before.$field.diff(&after.$field) {
                match item {
                    DiffItem::Add(key, value) | DiffItem::Update { new: (key, value), .. } => {
                        mirror.put($table, $key(key).as_ref(), encode(value));
                    }
                    DiffItem::Remove(key, _) => mirror.delete($table, $key(key).as_ref()),
                }
            }
        };
    }
    differ!(accounts, Table::Account, |name: &String| name.clone().into_bytes());
    differ!(users, Table::User, |name: &String| name.clone().into_bytes());
    differ!(associations, Table::Association, |id: &crate::AssocId| id.key());
    differ!(qos, Table::Qos, |id: &crate::QosId| id.key());
}
