-- Has servers with shorter queues drawn more often. Twice a second it asks each server of the backend `http` for its metrics, and sets the weight
-- of the servers of that name in all backends. HAProxy itself knows only what it has sent; a queue also holds what others sent.

local EVERY = 500 -- milliseconds
local FULL = 256  -- HAProxy's largest weight
local HALF = 8    -- with so many requests waiting, half of it

local function waiting(address)
    local answer = core.httpclient():get({ url = "http://" .. address .. "/metrics", timeout = 1000 })
    if not answer or answer.status ~= 200 then
        return nil
    end
    local sum = 0
    for number in answer.body:gmatch("\nstreampool_queue_requests{[^\n]*} (%d+)") do
        sum = sum + tonumber(number)
    end
    return sum
end

local function weigh(name, server)
    local number = waiting(server:get_addr())
    -- Without an answer its weight stays: whether it is taken out is for its health check to say.
    if not number then
        return
    end
    local weight = tostring(math.max(1, FULL * HALF // (HALF + number)))
    for _, backend in pairs(core.backends) do
        if backend.servers[name] then
            backend.servers[name]:set_weight(weight)
        end
    end
end

core.register_task(function()
    while true do
        for name, server in pairs(core.backends.http.servers) do
            local good, why = pcall(weigh, name, server)
            if not good then
                core.Warning("the queue of " .. name .. " is not known: " .. tostring(why))
            end
        end
        core.msleep(EVERY)
    end
end)
