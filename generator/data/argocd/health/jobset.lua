-- Health of a JobSet (jobset.x-k8s.io/v1alpha2).
--
-- A JobSet that waits for Kueue is Healthy, not Suspended: one suspended resource suspends its whole
-- Application (argo-cd#19126), and waiting in a queue is what it is meant to do. A running one is
-- Healthy as well: a sync must not wait for weeks of training.
local status = obj.status or {}

for _, condition in ipairs(status.conditions or {}) do
  if condition.status == "True" then
    if condition.type == "Failed" then
      return {
        status = "Degraded",
        message = "failed: " .. (condition.message or condition.reason or "no reason given"),
      }
    end
    if condition.type == "Completed" then
      return { status = "Healthy", message = "completed" }
    end
  end
end

if obj.spec ~= nil and obj.spec.suspend == true then
  return { status = "Healthy", message = "queued: waits for Kueue to admit it" }
end

if obj.status == nil then
  return { status = "Progressing", message = "waits for the JobSet controller" }
end

local message = "running"
local restarts = status.restarts or 0
if restarts > 0 then
  local counted = status.restartsCountTowardsMax or restarts
  local policy = obj.spec ~= nil and obj.spec.failurePolicy or {}
  message = message .. ", restarted " .. tostring(restarts) .. " times (" .. tostring(counted)
    .. " of " .. tostring(policy.maxRestarts or 0) .. " allowed)"
end
return { status = "Healthy", message = message }
