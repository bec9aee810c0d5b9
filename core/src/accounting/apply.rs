//! Changes, applied to the records.

use super::{
    Account, AdminLevel, Book, Change, NORMAL, Qos, ROOT, User,
    change::{Edit, Place, QosChange, QosListChange, RuleChange},
};
use crate::{Refusal, Shared, id::QosId};

fn unknown(what: &str, name: &str) -> Refusal {
    Refusal::UnknownRecord { what: format!("{what} {name}") }
}

fn exists(what: &str, name: &str) -> Refusal {
    Refusal::RecordExists { what: format!("{what} {name}") }
}

impl Book {
    /// Does one change. One that is refused may have been done in part: try it on a copy.
    ///
    /// # Errors
    /// What it names is not there, is there already, or is needed by others.
    pub fn change(&mut self, change: &Change) -> Result<(), Refusal> {
        match change {
            Change::Found => self.found(),
            Change::AddAccount { name, description, organization, parent } => {
                self.add_account(name, description, organization, parent.as_deref())
            }
            Change::AddUser { name, uid } => self.add_user(name, *uid),
            Change::AddAssociation { place } => self.add_place(place),
            Change::AddQos { name } => {
                self.found()?;
                if name.is_empty() || self.qos_named(name).is_some() {
                    return Err(exists("quality of service", name));
                }
                self.add_qos(name);
                Ok(())
            }
            Change::AddCoordinator { account, user } => self.coordinate(account, user, true),
            Change::RemoveCoordinator { account, user } => self.coordinate(account, user, false),
            Change::ChangeAssociation { place, change } => self.change_rules(place, change),
            Change::ChangeAccount { name, description, organization, parent } => {
                let mut account = (**self.account(name).ok_or_else(|| unknown("account", name))?).clone();
                account.description = description.clone().unwrap_or(account.description);
                account.organization = organization.clone().unwrap_or(account.organization);
                if let Some(parent) = parent {
                    self.check_parent(name, parent)?;
                    account.parent = Some(parent.clone());
                }
                self.put_account(account);
                Ok(())
            }
            Change::ChangeUser { name, uid, default_account, admin, default_wckey } => {
                let mut user = (**self.user(name).ok_or_else(|| unknown("user", name))?).clone();
                user.uid = uid.or(user.uid);
                user.admin = admin.unwrap_or(user.admin);
                user.default_wckey = default_wckey.clone().or(user.default_wckey);
                if let Some(account) = default_account {
                    if !self.associations_of(name).any(|one| one.account == *account) {
                        return Err(unknown("association of the user with account", account));
                    }
                    user.default_account = Some(account.clone());
                }
                self.put_user(user);
                Ok(())
            }
            Change::ChangeQos { name, change } => self.change_qos(name, change),
            Change::RemoveAssociation { place } => self.remove_place(place),
            Change::RemoveUser { name } => self.remove_user(name),
            Change::RemoveAccount { name } => self.remove_account(name),
            Change::RemoveQos { name } => self.remove_qos(name),
        }
    }

    fn found(&mut self) -> Result<(), Refusal> {
        if self.is_founded() {
            return Ok(());
        }
        let normal = self.add_qos(NORMAL);
        self.put_account(Account {
            name: ROOT.to_owned(),
            description: "default root account".to_owned(),
            organization: ROOT.to_owned(),
            parent: None,
        });
        let own = self.add_association(&Place { account: ROOT.to_owned(), ..Place::default() });
        if let Some(association) = self.associations.get_mut(&own) {
            association.make_mut().qos.exactly = Some(vec![normal]);
        }
        self.add_user(ROOT, Some(0))?;
        self.add_place(&Place { account: ROOT.to_owned(), user: Some(ROOT.to_owned()), partition: None })?;
        let root = self.users.get_mut(ROOT).ok_or_else(|| unknown("user", ROOT))?;
        root.make_mut().admin = AdminLevel::Administrator;
        Ok(())
    }

    fn add_account(
        &mut self,
        name: &str,
        description: &str,
        organization: &str,
        parent: Option<&str>,
    ) -> Result<(), Refusal> {
        self.found()?;
        if name.is_empty() || self.account(name).is_some() {
            return Err(exists("account", name));
        }
        let parent = parent.unwrap_or(ROOT);
        self.account(parent).ok_or_else(|| unknown("account", parent))?;
        self.put_account(Account {
            name: name.to_owned(),
            description: description.to_owned(),
            organization: organization.to_owned(),
            parent: Some(parent.to_owned()),
        });
        self.add_association(&Place { account: name.to_owned(), ..Place::default() });
        Ok(())
    }

    fn add_user(&mut self, name: &str, uid: Option<u32>) -> Result<(), Refusal> {
        if name.is_empty() || self.user(name).is_some() {
            return Err(exists("user", name));
        }
        let (default_account, default_wckey) = (None, None);
        let name = name.to_owned();
        self.put_user(User {
            name,
            uid,
            default_account,
            admin: AdminLevel::None,
            coordinates: Vec::new(),
            default_wckey,
        });
        Ok(())
    }

    fn add_place(&mut self, place: &Place) -> Result<(), Refusal> {
        let name = place.user.as_deref().unwrap_or_default();
        let mut user = (**self.user(name).ok_or_else(|| unknown("user", name))?).clone();
        self.account(&place.account).ok_or_else(|| unknown("account", &place.account))?;
        if self.at(place).is_some() {
            return Err(exists("association of user", name));
        }
        self.add_association(place);
        if user.default_account.is_none() {
            user.default_account = Some(place.account.clone());
            self.put_user(user);
        }
        Ok(())
    }

    fn coordinate(&mut self, account: &str, user: &str, is: bool) -> Result<(), Refusal> {
        self.account(account).ok_or_else(|| unknown("account", account))?;
        let mut user = (**self.user(user).ok_or_else(|| unknown("user", user))?).clone();
        user.coordinates.retain(|one| one != account);
        if is {
            user.coordinates.push(account.to_owned());
            user.coordinates.sort();
        }
        self.put_user(user);
        Ok(())
    }

    fn check_parent(&self, name: &str, parent: &str) -> Result<(), Refusal> {
        self.account(parent).ok_or_else(|| unknown("account", parent))?;
        if name == ROOT || self.line(parent).any(|above| above.name == name) {
            return Err(Refusal::Invalid { what: format!("account {parent} above {name}") });
        }
        Ok(())
    }

    fn qos_ids(&self, names: &[String]) -> Result<Vec<QosId>, Refusal> {
        let id = |name: &String| self.qos_named(name).map(|qos| qos.id).ok_or(Refusal::Qos);
        let mut ids = names.iter().map(id).collect::<Result<Vec<_>, _>>()?;
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    fn change_rules(&mut self, place: &Place, change: &RuleChange) -> Result<(), Refusal> {
        let mut shared = self.at(place).ok_or_else(|| unknown("association of account", &place.account))?.clone();
        let one = shared.make_mut();
        one.fairshare = change.fairshare.unwrap_or(one.fairshare);
        change.priority.apply(&mut one.priority);
        one.limits.edit(&change.limits);
        match &change.qos {
            QosListChange::Keep => {}
            QosListChange::Exactly(names) => {
                let ids = self.qos_ids(names)?;
                (one.qos.added, one.qos.removed) = (Vec::new(), Vec::new());
                // The tree has to end somewhere: root's list is never taken over.
                one.qos.exactly = (!ids.is_empty() || (one.user.is_none() && one.account == ROOT)).then_some(ids);
            }
            QosListChange::Differ { add, remove } => {
                let (add, remove) = (self.qos_ids(add)?, self.qos_ids(remove)?);
                let own = one.qos.exactly.as_mut();
                match own {
                    Some(own) => {
                        own.extend(add);
                        own.retain(|qos| !remove.contains(qos));
                        own.sort_unstable();
                        own.dedup();
                    }
                    None => {
                        one.qos.removed.retain(|qos| !add.contains(qos));
                        one.qos.added.retain(|qos| !remove.contains(qos));
                        let (added, removed) = (&mut one.qos.added, &mut one.qos.removed);
                        [(added, add), (removed, remove)].into_iter().for_each(|(list, more)| {
                            list.extend(more);
                            list.sort_unstable();
                            list.dedup();
                        });
                    }
                }
            }
        }
        match &change.default_qos {
            Edit::Keep => {}
            Edit::Clear => one.default_qos = None,
            Edit::To(name) => one.default_qos = Some(self.qos_named(name).ok_or(Refusal::Qos)?.id),
        }
        self.associations.insert(one.id, shared);
        Ok(())
    }

    fn change_qos(&mut self, name: &str, change: &QosChange) -> Result<(), Refusal> {
        let mut shared: Shared<Qos> = self.qos_named(name).ok_or_else(|| unknown("quality of service", name))?.clone();
        let one = shared.make_mut();
        if let Some(description) = &change.description {
            one.description.clone_from(description);
        }
        one.priority = change.priority.unwrap_or(one.priority);
        one.grace_s = change.grace_s.unwrap_or(one.grace_s);
        one.preempt_mode = change.preempt_mode.unwrap_or(one.preempt_mode);
        change.preempt_exempt_s.apply(&mut one.preempt_exempt_s);
        one.usage_factor_millionths = change.usage_factor_millionths.unwrap_or(one.usage_factor_millionths);
        change.usage_threshold_millionths.apply(&mut one.usage_threshold_millionths);
        if let Some(flags) = &change.flags {
            one.flags.clone_from(flags);
        }
        one.flags.extend(&change.flags_add);
        one.flags.retain(|flag| !change.flags_remove.contains(flag));
        one.flags.sort_unstable();
        one.flags.dedup();
        match &change.preempt {
            QosListChange::Keep => {}
            QosListChange::Exactly(names) => one.preempt = self.qos_ids(names)?,
            QosListChange::Differ { add, remove } => {
                let remove = self.qos_ids(remove)?;
                one.preempt.extend(self.qos_ids(add)?);
                one.preempt.retain(|qos| !remove.contains(qos));
                one.preempt.sort_unstable();
                one.preempt.dedup();
            }
        }
        one.limits.edit(&change.limits);
        self.qos.insert(one.id, shared);
        Ok(())
    }

    fn remove_place(&mut self, place: &Place) -> Result<(), Refusal> {
        let name = place.user.as_deref().unwrap_or_default();
        let user = self.user(name).ok_or_else(|| unknown("user", name))?;
        let id = self.at(place).ok_or_else(|| unknown("association of user", name))?.id;
        let others = |account: &String| self.associations_of(name).any(|one| one.id != id && one.account == *account);
        if user.default_account.as_ref() == Some(&place.account) && !others(&place.account) {
            return Err(Refusal::RecordInUse { what: format!("the default account of user {name}") });
        }
        self.drop_association(id);
        Ok(())
    }

    fn remove_user(&mut self, name: &str) -> Result<(), Refusal> {
        self.user(name).ok_or_else(|| unknown("user", name))?;
        if name == ROOT {
            return Err(Refusal::RecordInUse { what: "user root".to_owned() });
        }
        let all: Vec<_> = self.associations_of(name).map(|one| one.id).collect();
        all.into_iter().for_each(|id| self.drop_association(id));
        self.drop_user(name);
        Ok(())
    }

    /// The account and all below it.
    pub fn below<'a>(&'a self, account: &'a str) -> Vec<&'a str> {
        let mut all = vec![account];
        let mut at = 0;
        while let Some(next) = all.get(at).copied() {
            all.extend(self.children(next));
            at += 1;
        }
        all
    }

    fn remove_account(&mut self, name: &str) -> Result<(), Refusal> {
        self.account(name).ok_or_else(|| unknown("account", name))?;
        if name == ROOT {
            return Err(Refusal::RecordInUse { what: "account root".to_owned() });
        }
        let gone: Vec<String> = self.below(name).into_iter().map(str::to_owned).collect();
        if let Some(user) =
            self.users.values().find(|user| user.default_account.as_ref().is_some_and(|one| gone.contains(one)))
        {
            return Err(Refusal::RecordInUse { what: format!("the default account of user {}", user.name) });
        }
        for account in &gone {
            let all: Vec<_> = self.associations_in(account).map(|one| one.id).collect();
            all.into_iter().for_each(|id| self.drop_association(id));
            self.drop_account(account);
        }
        let coordinators: Vec<Shared<User>> =
            self.users.values().filter(|user| user.coordinates.iter().any(|one| gone.contains(one))).cloned().collect();
        for mut user in coordinators {
            user.make_mut().coordinates.retain(|one| !gone.contains(one));
            self.put_user((*user).clone());
        }
        Ok(())
    }

    fn remove_qos(&mut self, name: &str) -> Result<(), Refusal> {
        let id = self.qos_named(name).ok_or_else(|| unknown("quality of service", name))?.id;
        let uses = |list: &[QosId]| list.contains(&id);
        let changed: Vec<_> = self.associations.values().cloned().collect();
        for mut one in changed {
            let list = one.qos.exactly.as_deref().unwrap_or_default();
            if uses(list) || uses(&one.qos.added) || uses(&one.qos.removed) || one.default_qos == Some(id) {
                let own = one.make_mut();
                own.qos.forget(id);
                own.default_qos = own.default_qos.filter(|qos| *qos != id);
                self.associations.insert(own.id, one);
            }
        }
        let preempting: Vec<_> = self.qos.values().filter(|one| uses(&one.preempt)).cloned().collect();
        for mut one in preempting {
            one.make_mut().preempt.retain(|qos| *qos != id);
            self.qos.insert(one.id, one);
        }
        self.drop_qos(id);
        Ok(())
    }
}
