//! All records of accounting together, with the indexes that find them. Persistent maps: a copy costs a few pointers, so that
//! changes can be tried on one.

use imbl::{OrdMap, OrdSet};
use minicbor::{Decode, Encode};

use super::{Account, AdminLevel, Association, Limits, NORMAL, Qos, ROOT, User, change::Place};
use crate::{
    Shared,
    id::{AssocId, QosId},
};

/// The next numbers. Numbers are never given twice, so that a job never points to another's association.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(map)]
pub struct Counters {
    /// The next association's.
    #[cbor(n(0), default)]
    pub next_association: AssocId,
    /// The next quality of service's.
    #[cbor(n(1), default)]
    pub next_qos: QosId,
}

/// The records.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Book {
    pub(crate) counters: Counters,
    pub(crate) accounts: OrdMap<String, Shared<Account>>,
    pub(crate) users: OrdMap<String, Shared<User>>,
    pub(crate) associations: OrdMap<AssocId, Shared<Association>>,
    pub(crate) qos: OrdMap<QosId, Shared<Qos>>,
    // Derived.
    places: OrdMap<Place, AssocId>,
    qos_names: OrdMap<String, QosId>,
    children: OrdSet<(String, String)>,
    of_user: OrdSet<(String, AssocId)>,
    uids: OrdMap<u32, String>,
}

/// All records, as they travel.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(map)]
pub struct BookView {
    /// The cluster's name.
    #[cbor(n(0), default)]
    pub cluster: String,
    /// The next numbers.
    #[cbor(n(1), default)]
    pub counters: Counters,
    /// Accounts.
    #[cbor(n(2), default)]
    pub accounts: Vec<Shared<Account>>,
    /// Users.
    #[cbor(n(3), default)]
    pub users: Vec<Shared<User>>,
    /// Associations.
    #[cbor(n(4), default)]
    pub associations: Vec<Shared<Association>>,
    /// Qualities of service.
    #[cbor(n(5), default)]
    pub qos: Vec<Shared<Qos>>,
    /// The caller may change everything.
    #[cbor(n(6), default)]
    pub is_operator: bool,
    /// The caller's name.
    #[cbor(n(7), default)]
    pub caller: String,
    /// Generic resources that nodes have, in order.
    #[cbor(n(8), default)]
    pub gres: Vec<String>,
    /// Jobs that have not ended, by association.
    #[cbor(n(9), default)]
    pub active: Vec<(AssocId, u64)>,
}

impl Book {
    /// True once there is an account: without any, nothing is checked and nobody is charged.
    pub fn is_founded(&self) -> bool {
        !self.accounts.is_empty()
    }

    /// An account.
    pub fn account(&self, name: &str) -> Option<&Shared<Account>> {
        self.accounts.get(name)
    }

    /// Accounts by name.
    pub fn accounts(&self) -> impl Iterator<Item = &Shared<Account>> {
        self.accounts.values()
    }

    /// A user.
    pub fn user(&self, name: &str) -> Option<&Shared<User>> {
        self.users.get(name)
    }

    /// The user with a number.
    pub fn user_of(&self, uid: u32) -> Option<&Shared<User>> {
        self.users.get(self.uids.get(&uid)?)
    }

    /// Users by name.
    pub fn users(&self) -> impl Iterator<Item = &Shared<User>> {
        self.users.values()
    }

    /// An association.
    pub fn association(&self, id: AssocId) -> Option<&Shared<Association>> {
        self.associations.get(&id)
    }

    /// Associations in the order of their numbers.
    pub fn associations_all(&self) -> impl Iterator<Item = &Shared<Association>> {
        self.associations.values()
    }

    /// The association of an account, user and partition.
    pub fn at(&self, place: &Place) -> Option<&Shared<Association>> {
        self.associations.get(self.places.get(place)?)
    }

    /// The association that holds for a user's job in an account: the partition's own, or else that of all partitions.
    pub fn charged(&self, account: &str, user: &str, partition: Option<&str>) -> Option<&Shared<Association>> {
        let place = |partition: Option<&str>| Place {
            account: account.to_owned(),
            user: Some(user.to_owned()),
            partition: partition.map(str::to_owned),
        };
        partition.and_then(|partition| self.at(&place(Some(partition)))).or_else(|| self.at(&place(None)))
    }

    /// Associations of an account: its own, then its users'.
    pub fn associations_in<'a>(&'a self, account: &'a str) -> impl Iterator<Item = &'a Shared<Association>> {
        let from = Place { account: account.to_owned(), user: None, partition: None };
        let all = self.places.range(from..).take_while(move |(place, _)| place.account == account);
        all.filter_map(|(_, id)| self.associations.get(id))
    }

    /// Associations of a user, in the order of their numbers.
    pub fn associations_of<'a>(&'a self, user: &'a str) -> impl Iterator<Item = &'a Shared<Association>> {
        let all = self.of_user.range((user.to_owned(), AssocId(0))..).take_while(move |(name, _)| name == user);
        all.filter_map(|(_, id)| self.associations.get(id))
    }

    /// Accounts right below one.
    pub fn children<'a>(&'a self, account: &'a str) -> impl Iterator<Item = &'a str> {
        let from = (account.to_owned(), String::new());
        self.children.range(from..).take_while(move |(parent, _)| parent == account).map(|(_, child)| child.as_str())
    }

    /// Associations as a tree is read: an account, its users, then the accounts below it. With the depth of each.
    pub fn tree(&self) -> Vec<(usize, &Shared<Association>)> {
        let mut all = Vec::with_capacity(self.associations.len());
        let mut open = vec![(0, ROOT)];
        while let Some((depth, account)) = open.pop() {
            let place = |one: &Shared<Association>| depth + usize::from(one.user.is_some());
            all.extend(self.associations_in(account).map(|one| (place(one), one)));
            let mut below: Vec<_> = self.children(account).map(|child| (depth + 1, child)).collect();
            below.reverse();
            open.extend(below);
        }
        all
    }

    /// A quality of service.
    pub fn qos(&self, id: QosId) -> Option<&Shared<Qos>> {
        self.qos.get(&id)
    }

    /// A quality of service by name.
    pub fn qos_named(&self, name: &str) -> Option<&Shared<Qos>> {
        self.qos.get(self.qos_names.get(name)?)
    }

    /// Qualities of service in the order of their numbers.
    pub fn all_qos(&self) -> impl Iterator<Item = &Shared<Qos>> {
        self.qos.values()
    }

    /// An account and those above it.
    pub fn line<'a>(&'a self, account: &'a str) -> impl Iterator<Item = &'a Shared<Account>> {
        std::iter::successors(self.accounts.get(account), |one| self.accounts.get(one.parent.as_ref()?))
            .take(self.accounts.len())
    }

    /// An association and those above it, root's last.
    pub fn chain<'a>(&'a self, association: &'a Association) -> impl Iterator<Item = &'a Association> {
        let own = association.user.is_some().then_some(association);
        let accounts = self.line(&association.account).filter_map(|account| {
            let place = Place { account: account.name.clone(), user: None, partition: None };
            self.at(&place).map(|shared| &**shared)
        });
        own.into_iter().chain(accounts)
    }

    /// Limits of an association, with what it takes over from those above.
    pub fn limits_of(&self, association: &Association) -> Limits {
        let mut limits = association.limits.clone();
        self.chain(association).for_each(|above| limits.inherit(&above.limits));
        limits
    }

    /// Qualities of service that an association may use, in the order of numbers.
    pub fn qos_of(&self, association: &Association) -> Vec<QosId> {
        let mut chain: Vec<&Association> = self.chain(association).collect();
        chain.reverse();
        chain.into_iter().fold(Vec::new(), |above, one| one.qos.over(&above))
    }

    /// Quality of service of jobs that name none, as said for an association or above it.
    pub fn default_qos_of(&self, association: &Association) -> Option<QosId> {
        self.chain(association).find_map(|one| one.default_qos)
    }

    /// What a user may do beyond own jobs.
    pub fn admin_level(&self, uid: u32) -> AdminLevel {
        self.user_of(uid).map_or(AdminLevel::None, |user| user.admin)
    }

    /// True if the user coordinates the account or one above it.
    pub fn coordinates(&self, uid: u32, account: &str) -> bool {
        let Some(user) = self.user_of(uid).filter(|user| !user.coordinates.is_empty()) else { return false };
        self.line(account).any(|one| user.coordinates.contains(&one.name))
    }

    /// The quality of service that is there from the start.
    pub fn normal_qos(&self) -> Option<QosId> {
        self.qos_named(NORMAL).map(|qos| qos.id)
    }

    /// All records, as they travel.
    pub fn view(&self, cluster: &str) -> BookView {
        BookView {
            cluster: cluster.to_owned(),
            counters: self.counters,
            accounts: self.accounts.values().cloned().collect(),
            users: self.users.values().cloned().collect(),
            associations: self.associations.values().cloned().collect(),
            qos: self.qos.values().cloned().collect(),
            ..BookView::default()
        }
    }

    /// The records of a view.
    pub fn from_view(view: &BookView) -> Self {
        let mut book = Self {
            counters: view.counters,
            accounts: view.accounts.iter().map(|one| (one.name.clone(), one.clone())).collect(),
            users: view.users.iter().map(|one| (one.name.clone(), one.clone())).collect(),
            associations: view.associations.iter().map(|one| (one.id, one.clone())).collect(),
            qos: view.qos.iter().map(|one| (one.id, one.clone())).collect(),
            ..Self::default()
        };
        book.index();
        book
    }

    /// Rebuilds what is derived.
    pub(crate) fn index(&mut self) {
        let place = |one: &Association| Place {
            account: one.account.clone(),
            user: one.user.clone(),
            partition: one.partition.clone(),
        };
        self.places = self.associations.values().map(|one| (place(one), one.id)).collect();
        self.qos_names = self.qos.values().map(|one| (one.name.clone(), one.id)).collect();
        let pair = |one: &Shared<Account>| Some((one.parent.clone()?, one.name.clone()));
        self.children = self.accounts.values().filter_map(pair).collect();
        let owned = |one: &Shared<Association>| Some((one.user.clone()?, one.id));
        self.of_user = self.associations.values().filter_map(owned).collect();
        self.uids = self.users.values().filter_map(|user| Some((user.uid?, user.name.clone()))).collect();
    }

    pub(super) fn put_account(&mut self, account: Account) {
        if let Some(parent) = self.accounts.get(&account.name).and_then(|old| old.parent.clone()) {
            self.children.remove(&(parent, account.name.clone()));
        }
        if let Some(parent) = &account.parent {
            self.children.insert((parent.clone(), account.name.clone()));
        }
        self.accounts.insert(account.name.clone(), Shared::new(account));
    }

    pub(super) fn drop_account(&mut self, name: &str) {
        if let Some(account) = self.accounts.remove(name)
            && let Some(parent) = &account.parent
        {
            self.children.remove(&(parent.clone(), name.to_owned()));
        }
    }

    pub(super) fn put_user(&mut self, user: User) {
        if let Some(uid) = self.users.get(&user.name).and_then(|old| old.uid) {
            self.uids.remove(&uid);
        }
        if let Some(uid) = user.uid {
            self.uids.insert(uid, user.name.clone());
        }
        self.users.insert(user.name.clone(), Shared::new(user));
    }

    pub(super) fn drop_user(&mut self, name: &str) {
        if let Some(uid) = self.users.remove(name).and_then(|user| user.uid) {
            self.uids.remove(&uid);
        }
    }

    pub(super) fn add_association(&mut self, place: &Place) -> AssocId {
        let id = AssocId(self.counters.next_association.0.max(1));
        self.counters.next_association = AssocId(id.0.saturating_add(1));
        let Place { account, user, partition } = place.clone();
        if let Some(user) = &user {
            self.of_user.insert((user.clone(), id));
        }
        let association = Association {
            id,
            account,
            user,
            partition,
            fairshare: Default::default(),
            priority: None,
            limits: Limits::default(),
            qos: Default::default(),
            default_qos: None,
        };
        self.places.insert(place.clone(), id);
        self.associations.insert(id, Shared::new(association));
        id
    }

    pub(super) fn drop_association(&mut self, id: AssocId) {
        let Some(old) = self.associations.remove(&id) else { return };
        self.places.remove(&Place {
            account: old.account.clone(),
            user: old.user.clone(),
            partition: old.partition.clone(),
        });
        if let Some(user) = &old.user {
            self.of_user.remove(&(user.clone(), id));
        }
    }

    pub(super) fn add_qos(&mut self, name: &str) -> QosId {
        let id = QosId(self.counters.next_qos.0.max(1));
        self.counters.next_qos = QosId(id.0.saturating_add(1));
        self.qos_names.insert(name.to_owned(), id);
        self.qos.insert(id, Shared::new(Qos::new(id, name)));
        id
    }

    pub(super) fn drop_qos(&mut self, id: QosId) {
        if let Some(old) = self.qos.remove(&id) {
            self.qos_names.remove(&old.name);
        }
    }

    /// What does not hold of the records, in words.
    pub(crate) fn broken(&self) -> Option<&'static str> {
        let mut rebuilt = self.clone();
        rebuilt.index();
        let known = |qos: &QosId| self.qos.contains_key(qos);
        let rules = [
            ("the derived indexes differ from the records", rebuilt == *self),
            ("accounts without root", self.accounts.is_empty() || self.accounts.contains_key(ROOT)),
            (
                "an account has no parent, or root has one",
                self.accounts.values().all(|one| match &one.parent {
                    Some(parent) => one.name != ROOT && self.accounts.contains_key(parent),
                    None => one.name == ROOT,
                }),
            ),
            (
                "an account is its own ancestor",
                self.accounts.keys().all(|name| self.line(name).any(|above| above.name == ROOT)),
            ),
            (
                "an account has no association",
                self.accounts
                    .keys()
                    .all(|name| self.places.contains_key(&Place { account: name.clone(), ..Place::default() })),
            ),
            (
                "an association's account or user is not known",
                self.associations.values().all(|one| {
                    self.accounts.contains_key(&one.account)
                        && one.user.as_ref().is_none_or(|user| self.users.contains_key(user))
                        && one.id < self.counters.next_association
                }),
            ),
            (
                "a default account is no association of its user",
                self.users.values().all(|user| {
                    let has = |account: &String| self.associations_of(&user.name).any(|one| one.account == *account);
                    user.default_account.as_ref().is_none_or(has)
                }),
            ),
            (
                "a coordinated account is not known",
                self.users.values().all(|user| user.coordinates.iter().all(|one| self.accounts.contains_key(one))),
            ),
            (
                "a quality of service is not known",
                self.associations.values().all(|one| {
                    let lists = [one.qos.exactly.as_deref().unwrap_or_default(), &one.qos.added, &one.qos.removed];
                    lists.into_iter().flatten().chain(&one.default_qos).all(known)
                }) && self.qos.values().all(|one| one.preempt.iter().all(known) && one.id < self.counters.next_qos),
            ),
        ];
        rules.into_iter().find(|(_, holds)| !holds).map(|(what, _)| what)
    }
}
