-- Health of a ClusterQueue and of a LocalQueue (kueue.x-k8s.io).
--
-- Both carry the condition Active. A queue that is stopped on purpose (spec.stopPolicy) is Healthy:
-- Git says so. A condition of an older generation says nothing about what was just applied.
local status = obj.status or {}
local generation = obj.metadata ~= nil and obj.metadata.generation or 0

local function count(name)
  return tostring(status[name] or 0)
end

for _, condition in ipairs(status.conditions or {}) do
  if condition.type == "Active" then
    if (condition.observedGeneration or generation) < generation then
      return { status = "Progressing", message = "waits for Kueue to take over the change" }
    end
    if condition.status == "True" then
      return {
        status = "Healthy",
        message = count("pendingWorkloads") .. " pending, " .. count("admittedWorkloads")
          .. " admitted",
      }
    end
    local reason = condition.reason or "not active"
    local text = condition.message or ""
    local stopped = obj.spec ~= nil and obj.spec.stopPolicy ~= nil and obj.spec.stopPolicy ~= "None"
    -- Kueue names the first of its reasons and joins all in the message: a stopped queue may also
    -- lack a flavor, so the message is passed on.
    if stopped and reason == "Stopped" then
      return {
        status = "Healthy",
        message = "stopPolicy " .. obj.spec.stopPolicy .. ", as Git says: " .. text,
      }
    end
    if reason == "Terminating" then
      return { status = "Progressing", message = "goes when nothing that it admitted runs" }
    end
    return { status = "Degraded", message = reason .. ": " .. text }
  end
end

return { status = "Progressing", message = "waits for Kueue" }
