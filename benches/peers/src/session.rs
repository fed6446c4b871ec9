//! A session of one side, with a dataset's tables in it, and what running a query in it costs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::datasource::file_format::FileFormatFactory;
use datafusion::datasource::provider::DefaultTableFactory;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_fermion::with_rules;
use futures::TryStreamExt;
use vortex_datafusion::VortexFormatFactory;

use crate::dataset::Tables;
use crate::fingerprint::Fingerprint;
use crate::queries::Query;
use crate::side::Side;
use crate::store::{CountingStore, Traffic};

pub(crate) struct Session {
    pub(crate) side: Side,
    partitions: usize,
    context: SessionContext,
    store: Arc<CountingStore>,
}

/// What a query cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// The median of all runs.
    pub(crate) time: Duration,
    pub(crate) read: Traffic,
}

impl Session {
    /// A session of one side that knows its tables, and has read what it takes to know them.
    pub(crate) async fn open(side: Side, tables: &Tables, partitions: usize) -> Result<Self> {
        let session = Self::new(side, partitions).await?;
        session.create(tables).await?;
        Ok(session)
    }

    /// A session without tables.
    async fn new(side: Side, partitions: usize) -> Result<Self> {
        let context = context(SessionConfig::new().with_target_partitions(partitions))?;
        side.configure(&context).await?;
        let store = Arc::new(CountingStore::default());
        let local = ObjectStoreUrl::local_filesystem();
        context.register_object_store(local.as_ref(), Arc::clone(&store) as _);
        Ok(Self { side, partitions, context, store })
    }

    async fn create(&self, tables: &Tables) -> Result<()> {
        let Self { context, partitions, .. } = self;
        for table in tables.names() {
            if let Some(files) = self.side.files {
                let path = tables.location(table, files);
                let sql = format!("CREATE EXTERNAL TABLE {table} STORED AS {} LOCATION '{}'", files.stored_as, path.display());
                context.sql(&sql).await?;
            } else {
                let loaded = MemTable::load(tables.made(table)?, Some(*partitions), &context.state()).await?;
                context.register_table(*table, Arc::new(loaded))?;
            }
        }
        Ok(())
    }

    /// Plans and runs a query, and gives its rows.
    pub(crate) async fn answer(&self, query: &Query) -> Result<Vec<RecordBatch>> {
        let mut answer = Vec::new();
        for statement in &query.statements {
            let plan = self.context.sql(statement).await?.create_physical_plan().await?;
            let batches = collect(plan, self.context.task_ctx()).await?;
            if batches.iter().any(|batch| batch.num_columns() > 0) {
                answer = batches;
            }
        }
        Ok(answer)
    }

    /// What a query's rows add up to.
    pub(crate) async fn fingerprint(&self, query: &Query) -> Result<Fingerprint> {
        let mut fingerprint = Fingerprint::default();
        for statement in &query.statements {
            let mut stream = self.context.sql(statement).await?.execute_stream().await?;
            while let Some(batch) = stream.try_next().await? {
                fingerprint.add(&batch)?;
            }
        }
        Ok(fingerprint)
    }

    /// Plans and runs a query, drops its rows as they come, and says how long that took.
    pub(crate) async fn run(&self, query: &Query) -> Result<Duration> {
        let start = Instant::now();
        for statement in &query.statements {
            let stream = self.context.sql(statement).await?.execute_stream().await?;
            stream.try_for_each(|_| async { Ok(()) }).await?;
        }
        Ok(start.elapsed())
    }

    /// The same in a session that has never seen the tables, with the time that it takes to create them. `None` where there is nothing to be read.
    pub(crate) async fn run_first(&self, tables: &Tables, query: &Query) -> Result<Option<Duration>> {
        if self.side.files.is_none() {
            return Ok(None);
        }
        let session = Self::new(self.side, self.partitions).await?;
        let start = Instant::now();
        session.create(tables).await?;
        session.run(query).await?;
        Ok(Some(start.elapsed()))
    }

    /// What a query reads.
    pub(crate) async fn traffic(&self, query: &Query) -> Result<Traffic> {
        let before = self.store.traffic();
        self.store.counting(true);
        let run = self.run(query).await;
        self.store.counting(false);
        run?;
        Ok(self.store.traffic().since(before))
    }

    /// What it reads in a session that has never seen the tables.
    pub(crate) async fn first_traffic(&self, tables: &Tables, query: &Query) -> Result<Traffic> {
        let session = Self::new(self.side, self.partitions).await?;
        session.store.counting(true);
        session.create(tables).await?;
        session.run(query).await?;
        Ok(session.store.traffic())
    }
}

/// A session with every format registered.
pub(crate) fn context(config: SessionConfig) -> Result<SessionContext> {
    let builder = SessionStateBuilder::new().with_config(config).with_default_features();
    let context = SessionContext::new_with_state(with_rules(builder).build());
    datafusion_fermion::register(&context)?;
    register_vortex(&context)?;
    Ok(context)
}

fn register_vortex(context: &SessionContext) -> Result<()> {
    let vortex: Arc<dyn FileFormatFactory> = Arc::new(VortexFormatFactory::new());
    let state = context.state_ref();
    let mut state = state.write();
    // `CREATE EXTERNAL TABLE` looks for the word in upper case.
    state.table_factories_mut().insert(vortex.get_ext().to_uppercase(), Arc::new(DefaultTableFactory::new()));
    state.register_file_format(vortex, true)
}
