//! Sessions with every format registered.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_fermion::provider::{GroupsByCodes, OffsetsAlone};

/// A session that knows DataFusion's formats and Fermion.
pub(crate) fn session(config: SessionConfig, runtime: Arc<RuntimeEnv>) -> Result<SessionContext> {
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features()
        .with_physical_optimizer_rule(Arc::new(OffsetsAlone))
        .with_physical_optimizer_rule(Arc::new(GroupsByCodes))
        .build();
    let ctx = SessionContext::new_with_state(state);
    datafusion_fermion::register(&ctx)?;
    datafusion_fermion::provider::register_inspection(&ctx);
    Ok(ctx)
}
